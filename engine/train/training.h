/* training.h: one training run: a model, its data and a device, from plan to result.
 *
 * training_prepare() plans (no device memory, no step); training_allocate() makes the run ready;
 * training_resume() goes on from a checkpoint; training_run() trains. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/train/checkpoint.h"
#include "engine/train/profile.h"
#include "engine/train/schedule.h"
#include "engine/train/session.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct training_config {
    int64_t epochs;     /* 0: `steps` alone decides */
    int64_t steps;      /* updates after which to stop; 0: `epochs` decides */
    int64_t batch;      /* samples */
    int64_t accumulate; /* batches to an update, at least 1 */
    int64_t evaluation_batch;
    struct recompute_config recompute;
    char direct_convolutions[CONVOLUTION_CHOICES_MAX]; /* device_choose_convolutions() */
    bool shuffle;
    uint64_t seed;
    enum tensor_type compute_type; /* of products; float16 scales the loss (loss_scale.h) */
    bool nondeterministic;         /* steps may give other bits each time, where that is faster */
    double clip_norm, clip_value;  /* 0: gradients are not clipped so */
    struct optimizer_config optimizer;
    const struct optimizer_group *groups; /* NULL: `optimizer` updates all parameters */
    int group_count;
    struct schedule_config schedule; /* total_steps is filled in */
    int64_t schedule_every_epochs;   /* step schedule: becomes every_steps when not 0 */
    int64_t schedule_warmup_epochs;  /* becomes warmup_steps when not 0 */
    bool milestones_are_epochs;      /* the schedule's milestones become steps */
    int64_t evaluate_every_steps, evaluate_every_epochs; /* one of them; 0, 0: every epoch */
    size_t memory_limit;                                 /* of the device; 0: all it has */
    int loader_threads;                                  /* -1: loader_threads_default() */
    int idle_cores;                                      /* that the training leaves to loaders */

    double average_decay; /* of the weights' moving averages, 0: none are kept */
    bool average_warmup;  /* the first averages forget faster */

    const char *early_metric; /* NULL: no early stop */
    int64_t early_patience;   /* measurements */
    double early_minimum_change;
    bool restore_best; /* after the last epoch, put back the weights with the best early_metric */

    const char *checkpoint_directory;                        /* NULL: none are written */
    int64_t checkpoint_every_steps, checkpoint_every_epochs; /* 0: not by this measure */
    double checkpoint_every_seconds;
    int checkpoint_keep;
    const char *best_metric;     /* NULL: no checkpoint is called the best */
    const char *best_checkpoint; /* of a run that goes on: the best one so far; NULL: not there */

    int64_t profile_steps; /* updates that are recorded; 0: the run is not profiled */
};

/* The sets; `validation` and `test` may be empty (count 0). They outlive the run. */
struct training_data {
    struct dataset_view train, validation, test;
    const struct dataset_normalisation *normalisation; /* NULL for text */
    const struct augmentation *augmentation;           /* of the training set; NULL: none */
};

/* Set by another thread; polled between steps. */
struct training_requests {
    atomic_int stop;       /* write a checkpoint and return */
    atomic_int checkpoint; /* write one and go on; the run clears it */
};

struct training_value {
    const char *name;
    double value;
};
enum { TRAINING_VALUES_MAX = 16 };

struct training_values {
    struct training_value values[TRAINING_VALUES_MAX];
    int count;
};

struct training_progress {
    int64_t step, steps;
    double epoch; /* done, with its fraction */
    double loss;  /* of the latest batch */
    double samples_per_second;
    double seconds_left;
    /* A step's mean since the last progress: waiting for data included, evaluations and checkpoints
     * not; NAN and 0 where there was none after the run's first steps. */
    double step_seconds, steps_timed;
};

struct training_checkpoint {
    int64_t step;
    double epoch;
    const char *file; /* its name within the checkpoint directory */
    uint64_t bytes;
    const char *digest;
    bool best;
    const struct training_values *values;                    /* of the latest measurement */
    struct checkpoint_entry removed[CHECKPOINT_REMOVED_MAX]; /* whose files are deleted then */
    int removed_count;
};

/* What the run tells while it trains; all may be NULL. A negative errno ends the run. */
struct training_events {
    void *context;
    int (*progress)(void *context, const struct training_progress *progress, struct error *error);
    int (*metrics)(void *context, int64_t step, double epoch, const struct training_values *values,
                   struct error *error);
    int (*checkpoint)(void *context, const struct training_checkpoint *checkpoint,
                      struct error *error);
    int (*best)(void *context, const struct tracker *best, struct error *error);
};

enum training_outcome { TRAINING_COMPLETED, TRAINING_INTERRUPTED };

struct training_result {
    enum training_outcome outcome;
    bool stopped_early;
    /* test_loss and test_accuracy are those of the best weights, else of the last ones; the step
     * that these were reached at. Where the best ones are not the last, last_test_loss and
     * last_test_accuracy are of the last ones. */
    bool best_weights;
    int64_t weights_step;
    struct error best_problem;     /* why the best weights could not be tested; code 0: none */
    struct training_values values; /* of the last epoch, and those of the test set */
    int64_t steps;
    double seconds;
    double step_seconds, steps_timed; /* of this process, as in the progress */
    double step_seconds_median;       /* over the latest readings of the clock */
    double evaluation_seconds, evaluation_samples;
};

struct training;

/* Builds the session's plan. `build` as for session_prepare(); it must outlive the run. The caller
 * releases with training_free(). -EINVAL with a sentence. */
int training_prepare(const struct training_config *config, const struct training_data *data,
                     const struct backend *backend, struct backend_device *device,
                     session_build_function build, void *build_context, struct training **training,
                     struct error *error);
int training_allocate(struct training *training, struct error *error);
/* session_rehearse(): only training_free() may follow. */
int training_rehearse(struct training *training, struct error *error);
void training_free(struct training *training); /* NULL allowed */

/* Goes on where the checkpoint was written; after training_allocate(). */
int training_resume(struct training *training, const struct checkpoint *checkpoint,
                    struct error *error);

/* Trains to the end or until asked to stop. `texts` go into every checkpoint. -ERROR_NONFINITE_LOSS
 * with a sentence naming the step when the loss is no longer finite; errors of the data, of writing
 * checkpoints and of the events. After the first step only checkpoints allocate memory. */
int training_run(struct training *training, const struct checkpoint_texts *texts,
                 const struct training_events *events, struct training_requests *requests,
                 struct training_result *result, struct error *error);

struct session *training_session(struct training *training);
/* Where the run's time went, once it has ended; NULL unless profile_steps says so. */
const struct profile *training_profile(const struct training *training);
const struct checkpoint_state *training_state(const struct training *training);
/* Updates and epochs that the whole run will take. */
int64_t training_total_steps(const struct training *training);
int64_t training_total_epochs(const struct training *training);
/* Evaluations of the validation set that it will make unless it stops early. */
int64_t training_total_evaluations(const struct training *training);
/* Seconds that a batch of the training set takes to prepare, timed on a few of them (some
 * milliseconds); NAN where the samples are still to be made. `overlaps`: a thread of its own will
 * prepare them. After training_prepare(). */
int training_measure_data(const struct training *training, double *seconds, bool *overlaps,
                          struct error *error);
/* Host memory of the run beside arena and data: the session's scratch, the best weights and the
 * profile. */
size_t training_host_bytes(const struct training *training);
