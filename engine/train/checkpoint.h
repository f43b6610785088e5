/* checkpoint.h: one safetensors file with everything that a run needs to continue bit for bit.
 *
 * Tensors:
 * - parameters and statistics, under PyTorch's names;
 * - "optimizer.<parameter>.<state>";
 * - "ema.<weight>": moving averages;
 * - "state.<layer>.…": what recurrent layers carry to the next batch;
 * - "gradient.<parameter>": if it was written within an accumulation;
 * - "best.<parameter>": if the best weights are to be restored at the end.
 *
 * Metadata: the fields of struct checkpoint_state as text, doubles as hexadecimal floats. */
#pragma once

#include "base/error.h"
#include "engine/train/loss_scale.h"
#include "engine/train/plateau.h"
#include "engine/train/safetensors.h"
#include "engine/train/session.h"
#include "engine/train/tracker.h"

#include <stdbool.h>
#include <stdint.h>

/* Loss and gradient norm of the next batch, for a run that moves to another device
 * (agreement.h). */
struct checkpoint_agreement {
    char device[TRACKER_NAME_MAX]; /* "cuda:0"; "": nothing is stored */
    char model[TRACKER_NAME_MAX];  /* the device's model, cut to fit */
    char precision[TRACKER_NAME_MAX];
    int64_t epoch, position; /* of the batch's first sample */
    double loss, gradient_norm;
};

struct checkpoint_state {
    int64_t step;       /* updates done */
    int64_t micro_step; /* batches since the last update, 0 unless within an accumulation */
    int64_t epoch;      /* epochs completed */
    int64_t position;   /* samples of the present epoch that were trained on */
    int64_t batches;    /* trained on in all */
    /* samples per batch, batches per update; 0 in files of early versions */
    int64_t batch, accumulate;
    char direct_convolutions[CONVOLUTION_CHOICES_MAX]; /* device_choose_convolutions() */
    /* The type of products, and the model of the device that it was chosen for, cut to fit; "" in
     * files of early versions. */
    char precision[TRACKER_NAME_MAX], precision_model[TRACKER_NAME_MAX];
    uint64_t seed;
    double momentum_product; /* NAdam: over the updates done (struct step_scalars) */
    struct loss_scale loss_scale;
    double seconds;           /* of training so far */
    double epoch_seconds;     /* of the present epoch, evaluation aside */
    struct step_metrics sums; /* sums of the present epoch */
    struct session_losses losses;
    struct tracker best, early; /* watch the metrics of the best checkpoint and of the early stop */
    struct plateau plateau;     /* state of the plateau schedule */
    int64_t measured_step;      /* updates done at the latest measurement */
    struct checkpoint_agreement agreement; /* set when a run is asked to stop */
};

/* Texts that go with the weights; any may be NULL. */
struct checkpoint_texts {
    const char *specification; /* digest of what was trained */
    const char *normalisation; /* dataset_normalisation_format() */
    const char *vocabulary;    /* dataset_vocabulary_format() */
    const char *module; /* description of the model for exports; the caller defines its form */
    /* What the model is used by where its job and its data are not: the specification, whose form
     * the caller defines, and dataset_description_format(). */
    const char *job, *data;
    const char *quantization; /* how the weights were quantized; NULL: they are float32 */
    const char *layouts;      /* weight_layouts_format(): where files have them in another form */
};

/* Weights kept in host memory (the best so far), for early stopping. */
struct weights_copy {
    float *values; /* owned; the tensors that evaluation reads, in the session's order */
    size_t bytes;
    bool filled;
};
int weights_copy_init(struct weights_copy *copy, const struct session *session,
                      struct error *error);
void weights_copy_release(struct weights_copy *copy);
int weights_copy_save(struct weights_copy *copy, struct session *session, struct error *error);
int weights_copy_restore(const struct weights_copy *copy, struct session *session,
                         struct error *error);

/* Writes a checkpoint. The complete, synced file appears at `path`, or no file does. `best` may be
 * NULL. Fills in the file's `digest` and `bytes`. */
int checkpoint_write(struct session *session, const struct checkpoint_state *state,
                     const struct checkpoint_texts *texts, const struct weights_copy *best,
                     const char *path, char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *bytes,
                     struct error *error);

/* An opened checkpoint; its texts point into the mapped file. */
struct checkpoint {
    struct safetensors file;
    struct checkpoint_state state;
    struct checkpoint_texts texts;
};

/* Opens and checks a file: -EINVAL with a sentence if it is not a checkpoint of traind. Release
 * with checkpoint_close(). */
int checkpoint_open(const char *path, struct checkpoint *checkpoint, struct error *error);
/* The same, also of a file that checkpoint_export() wrote: its state has the step, the precision
 * and the ways of the convolutions, which decide about the bits of results, and no more. */
int checkpoint_open_model(const char *path, struct checkpoint *checkpoint, struct error *error);
void checkpoint_close(struct checkpoint *checkpoint);

/* Copies the tensors into the session: those that evaluation reads (the moving averages if there
 * are any), or with `training` all that a run needs. Copies the best weights into `best` (may be
 * NULL). -EINVAL with a sentence that names a tensor which is missing or has another shape. */
int checkpoint_restore(const struct checkpoint *checkpoint, struct session *session, bool training,
                       struct weights_copy *best, struct error *error);

/* Reads the float32 numbers of a tensor that evaluation reads, whatever type it has in the session:
 * its moving averages if the run kept them. The errors of checkpoint_restore(). */
int checkpoint_read_weight(const struct checkpoint *checkpoint, const struct session_tensor *tensor,
                           float *values, struct error *error);

enum checkpoint_weights {
    CHECKPOINT_EVALUATED, /* the moving averages if the run kept them, else the trained weights */
    CHECKPOINT_TRAINED    /* the weights that the optimizer updates */
};

/* Writes the weights of a checkpoint to a file for other programs, with PyTorch's names and
 * layouts, or those of the file that the model came from. Of the metadata it keeps the texts and
 * what checkpoint_open_model() reads. */
int checkpoint_export(const char *path, const char *output, enum checkpoint_weights weights,
                      char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *bytes, struct error *error);

/* ---- retention ---- */

enum { CHECKPOINT_KEEP_MAX = 1000, CHECKPOINT_PATH_MAX = 64, CHECKPOINT_REMOVED_MAX = 4 };

/* One file. Several files may have the same step, since a checkpoint may also be written at the end
 * of an epoch or within an accumulation. No file name is used twice, so a name always means the
 * same contents. */
struct checkpoint_entry {
    int64_t step;
    int number; /* number among the files of the step, from 1 */
    bool best;
};

/* The checkpoints that a run has written into its folder. */
struct checkpoint_folder {
    int keep; /* number of latest files that are kept, in addition to the best one */
    struct checkpoint_entry *entries; /* owned, oldest first, [keep + 2] */
    int count;
};

int checkpoint_folder_init(struct checkpoint_folder *folder, int keep, struct error *error);
void checkpoint_folder_release(struct checkpoint_folder *folder);
/* "step-<step>.safetensors", from the second file of a step on
 * "step-<step>-<number>.safetensors" */
void checkpoint_file_name(const struct checkpoint_entry *entry, char name[CHECKPOINT_PATH_MAX]);
/* The entry for the next file. */
struct checkpoint_entry checkpoint_folder_next(const struct checkpoint_folder *folder, int64_t step,
                                               bool best);
/* Adds the entry of a written file. It removes the entries of earlier files of the same step (but
 * not the best checkpoint, unless the new file is the best) and those beyond `keep`. Returns their
 * number and lists them in `removed`; the caller deletes the files. */
int checkpoint_folder_add(struct checkpoint_folder *folder, const struct checkpoint_entry *written,
                          struct checkpoint_entry removed[CHECKPOINT_REMOVED_MAX]);
