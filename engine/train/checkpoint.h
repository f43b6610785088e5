/* checkpoint.h: everything a run needs to go on bit for bit, in one safetensors file.
 *
 * Tensors: parameters and statistics under PyTorch's names; "optimizer.<parameter>.<state>";
 * "ema.<weight>" for the moving averages;
 * between the steps of an accumulation "gradient.<parameter>"; when the best weights are to be
 * restored at the end, "best.<parameter>". Metadata: the fields of struct checkpoint_state as text,
 * doubles as hexadecimal floats. */
#pragma once

#include "base/error.h"
#include "engine/train/loss_scale.h"
#include "engine/train/plateau.h"
#include "engine/train/safetensors.h"
#include "engine/train/session.h"
#include "engine/train/tracker.h"

#include <stdbool.h>
#include <stdint.h>

/* What a device that a run leaves computed for one batch (agreement.h). */
struct checkpoint_agreement {
    char device[TRACKER_NAME_MAX]; /* "cuda:0"; "": nothing is stored */
    char model[TRACKER_NAME_MAX];  /* of the device, its beginning */
    char precision[TRACKER_NAME_MAX];
    int64_t epoch, position; /* of the batch's first sample */
    double loss, gradient_norm;
};

struct checkpoint_state {
    int64_t step;              /* updates done */
    int64_t micro_step;        /* batches since the last update, 0 unless within an accumulation */
    int64_t epoch;             /* epochs completed */
    int64_t position;          /* samples of the present epoch that were trained on */
    int64_t batches;           /* trained on in all */
    int64_t batch, accumulate; /* samples of a batch, batches to an update; 0 in early files */
    char direct_convolutions[CONVOLUTION_CHOICES_MAX]; /* device_choose_convolutions() */
    /* Of the products, and the device's model, its beginning; "" in early files. */
    char precision[TRACKER_NAME_MAX], precision_model[TRACKER_NAME_MAX];
    uint64_t seed;
    double momentum_product; /* NAdam's, over the updates done (step_scalars) */
    struct loss_scale loss_scale;
    double seconds;                        /* of training so far */
    double epoch_seconds;                  /* of the present epoch, evaluation aside */
    struct step_metrics sums;              /* sums of the present epoch */
    struct tracker best, early;            /* the best checkpoint's metric, the early stop's */
    struct plateau plateau;                /* of that schedule */
    int64_t measured_step;                 /* updates done at the latest measurement */
    struct checkpoint_agreement agreement; /* of a run that was asked to stop */
};

/* Texts that go with the weights; any may be NULL. */
struct checkpoint_texts {
    const char *specification; /* digest of what was trained */
    const char *normalisation; /* dataset_normalisation_format() */
    const char *vocabulary;    /* dataset_vocabulary_format() */
    const char *module;        /* what an export needs to write the model down: the caller's own */
};

/* Weights kept in host memory (the best so far), for early stopping. */
struct weights_copy {
    float *values; /* owned: all that evaluation reads, in the session's order */
    size_t bytes;
    bool filled;
};
int weights_copy_init(struct weights_copy *copy, const struct session *session,
                      struct error *error);
void weights_copy_release(struct weights_copy *copy);
int weights_copy_save(struct weights_copy *copy, struct session *session, struct error *error);
int weights_copy_restore(const struct weights_copy *copy, struct session *session,
                         struct error *error);

/* Writes a checkpoint; the file appears at `path` whole and synced, or not at all. `best` may be
 * NULL. `digest` and `bytes` describe the file. */
int checkpoint_write(struct session *session, const struct checkpoint_state *state,
                     const struct checkpoint_texts *texts, const struct weights_copy *best,
                     const char *path, char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *bytes,
                     struct error *error);

/* An opened checkpoint; the texts point into it. */
struct checkpoint {
    struct safetensors file;
    struct checkpoint_state state;
    struct checkpoint_texts texts;
};

/* Opens and checks a file: -EINVAL with a sentence when it is no checkpoint of traind. Release with
 * checkpoint_close(). */
int checkpoint_open(const char *path, struct checkpoint *checkpoint, struct error *error);
void checkpoint_close(struct checkpoint *checkpoint);

/* Copies the tensors into the session: what evaluations read (the moving averages if there are
 * any), or with `training` all that a run needs, and the best weights into `best` (may be NULL).
 * -EINVAL with a sentence naming the tensor that is missing or has another shape. */
int checkpoint_restore(const struct checkpoint *checkpoint, struct session *session, bool training,
                       struct weights_copy *best, struct error *error);

enum checkpoint_weights {
    CHECKPOINT_EVALUATED, /* the moving averages where the run kept them, else the trained ones */
    CHECKPOINT_TRAINED    /* what the optimizer made */
};

/* Copies only the weights of a checkpoint to a file for other programs: PyTorch's names and
 * layouts, of the metadata the normalisation, the vocabulary, the description and the step. */
int checkpoint_export(const char *path, const char *output, enum checkpoint_weights weights,
                      char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *bytes, struct error *error);

/* ---- retention ---- */

enum { CHECKPOINT_KEEP_MAX = 1000, CHECKPOINT_PATH_MAX = 64, CHECKPOINT_REMOVED_MAX = 4 };

/* One file. A step may be written again, a moment later in its epoch or within the next update's
 * accumulation. Every file has a name of its own: who was told of one never finds another in it. */
struct checkpoint_entry {
    int64_t step;
    int number; /* of the step's files, from 1 */
    bool best;
};

/* The checkpoints that a run has written into its folder. */
struct checkpoint_folder {
    int keep;                         /* the last so many stay, and the best one */
    struct checkpoint_entry *entries; /* owned, oldest first, [keep + 2] */
    int count;
};

int checkpoint_folder_init(struct checkpoint_folder *folder, int keep, struct error *error);
void checkpoint_folder_release(struct checkpoint_folder *folder);
/* "step-<step>.safetensors", from the second file of a step on
 * "step-<step>-<number>.safetensors" */
void checkpoint_file_name(const struct checkpoint_entry *entry, char name[CHECKPOINT_PATH_MAX]);
/* The entry of the file that is to be written next. */
struct checkpoint_entry checkpoint_folder_next(const struct checkpoint_folder *folder, int64_t step,
                                               bool best);
/* Notes it once it is written. Earlier files of its step go, unless one is the best checkpoint and
 * this one is not, and those beyond retention. They come back in `removed` (the caller deletes the
 * files), their number as the result. */
int checkpoint_folder_add(struct checkpoint_folder *folder, const struct checkpoint_entry *written,
                          struct checkpoint_entry removed[CHECKPOINT_REMOVED_MAX]);
