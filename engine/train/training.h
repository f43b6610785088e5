/* training.h: one training run: a model, its data and a device, from plan to result.
 *
 * training_prepare() plans (no device memory, no step); training_allocate() makes the run ready;
 * training_resume() goes on from a checkpoint; training_run() trains. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/train/checkpoint.h"
#include "engine/train/metrics.h"
#include "engine/train/profile.h"
#include "engine/train/schedule.h"
#include "engine/train/session.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct training_config {
    int64_t epochs;     /* 0: `steps` alone decides */
    int64_t steps;      /* stop after this many updates; 0: `epochs` decides */
    int64_t batch;      /* samples of a batch */
    int64_t accumulate; /* batches per update, at least 1 */
    int64_t evaluation_batch;
    struct recompute_config recompute;
    char direct_convolutions[CONVOLUTION_CHOICES_MAX]; /* device_choose_convolutions() */
    bool shuffle, drop_last;                           /* as in struct loader_config */
    int length_buckets; /* at most so many lengths of batches of sequences; 0, 1: one */
    uint64_t seed;
    enum tensor_type compute_type; /* of products; float16 scales the loss (loss_scale.h) */
    bool rounds_parameters;        /* to compute_type: there are no float32 weights */
    bool nondeterministic;         /* steps may give different bits each time if that is faster */
    double clip_norm, clip_value;  /* 0: gradients are not clipped by this measure */
    struct optimizer_config optimizer;
    const struct optimizer_group *groups; /* NULL: `optimizer` updates all parameters */
    int group_count;
    double layer_decay;              /* graph_decay_layers(); 0: all depths learn alike */
    struct schedule_config schedule; /* total_steps is filled in */
    int64_t schedule_every_epochs;   /* step schedule: sets every_steps if not 0 */
    int64_t schedule_warmup_epochs;  /* sets warmup_steps if not 0 */
    bool milestones_are_epochs;      /* milestones are epochs and are converted to steps */
    /* at most one is not 0; both 0: every epoch */
    int64_t evaluate_every_steps, evaluate_every_epochs;
    /* Metrics of the validation and test sets beside those of sums, if `metrics_given`; else
     * metrics_usual(). Those that are watched are measured in any case. */
    bool metrics_given;
    metric_set metrics;
    size_t memory_limit; /* of the device; 0: all it has */
    int loader_threads;  /* -1: loader_threads_default() */
    int idle_cores;      /* cores that training leaves free for loaders */

    double average_decay; /* decay of the weights' moving averages; 0: none are kept */
    bool average_warmup;  /* the decay is smaller in the first updates: schedule_average_decay() */

    const char *early_metric; /* NULL: no early stop */
    int64_t early_patience;   /* measurements */
    double early_minimum_change;
    /* after the last epoch, restore the weights that had the best early_metric */
    bool restore_best;

    const char *checkpoint_directory;                        /* NULL: none are written */
    int64_t checkpoint_every_steps, checkpoint_every_epochs; /* 0: not by this measure */
    double checkpoint_every_seconds;
    int checkpoint_keep;
    const char *best_metric; /* NULL: there is no best checkpoint */
    /* resumed run: path of its best checkpoint so far; NULL: there is none */
    const char *best_checkpoint;

    int64_t profile_steps;   /* how many updates to record; 0: the run is not profiled */
    double progress_seconds; /* between two reports of progress; 0: 0.25 */
};

/* The metrics that are measured of a set of the dataset, beside those that are watched. */
metric_set training_metrics(const struct training_config *config, const struct dataset *dataset,
                            const struct metric_heads *heads, enum metric_subset subset);
/* Whether evaluation reads averages of the weights: moving ones, or those of the optimizer. */
bool training_averages(const struct training_config *config);

/* The sets; `validation` and `test` may be empty (count 0). They outlive the run. */
struct training_data {
    struct dataset_view train, validation, test;
    const struct dataset_normalisation *normalisation; /* NULL for text */
    const struct augmentation *augmentation;           /* of the training set; NULL: none */
    const struct class_balance *balance;               /* likewise, see struct loader_config */
    struct metric_heads heads;                         /* of the model; they outlive the run */
};

/* Requests that another thread sets and the run polls between steps. */
struct training_requests {
    atomic_int stop;       /* write a checkpoint and return */
    atomic_int checkpoint; /* write a checkpoint and continue; the run clears it */
};

struct training_value {
    const char *name;
    double value;
};
enum { TRAINING_VALUES_MAX = 96 };

struct training_values {
    struct training_value values[TRAINING_VALUES_MAX];
    int count;
};

struct training_progress {
    int64_t step, steps;
    double epoch; /* epochs done, including the fraction of the present one */
    double loss;  /* of the latest batch */
    double samples_per_second;
    double seconds_left;
    /* Mean seconds of a step since the last progress, and their number. Waiting for data counts,
     * evaluations and checkpoints do not. NAN and 0 if only the run's first steps were made. */
    double step_seconds, steps_timed;
};

struct training_checkpoint {
    int64_t step;
    double epoch;
    const char *file; /* its name within the checkpoint directory */
    uint64_t bytes;
    const char *digest;
    bool best;
    const struct training_values *values; /* of the latest measurement */
    struct checkpoint_entry
        removed[CHECKPOINT_REMOVED_MAX]; /* whose files the run deletes after this event */
    int removed_count;
};

/* Functions that the run calls to report; each may be NULL. A negative errno ends the run. */
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
    /* test_… are metrics of the best weights (`best_weights`), else of the last ones;
     * `weights_step` is their step. If the best weights are not the last, last_test_… are those of
     * the last weights. */
    bool best_weights;
    int64_t weights_step;
    struct error best_problem; /* why the best weights could not be tested; code 0: they could */
    struct training_values values; /* metrics of the last epoch and of the test set */
    int64_t steps;
    double seconds;
    double step_seconds, steps_timed; /* of this process, as in struct training_progress */
    double step_seconds_median;       /* over the latest readings of the clock */
    double evaluation_seconds, evaluation_samples;
};

struct training;

/* Builds the session's plan. `build` is as for session_prepare(); `build_context` must outlive the
 * run. The caller releases with training_free(). -EINVAL with a sentence. */
int training_prepare(const struct training_config *config, const struct training_data *data,
                     const struct backend *backend, struct backend_device *device,
                     session_build_function build, void *build_context, struct training **training,
                     struct error *error);
int training_allocate(struct training *training, struct error *error);
/* session_rehearse(): only training_free() may follow. */
int training_rehearse(struct training *training, struct error *error);
void training_free(struct training *training); /* NULL allowed */

/* Continues from the checkpoint; after training_allocate(). */
int training_resume(struct training *training, const struct checkpoint *checkpoint,
                    struct error *error);

/* Trains to the end or until asked to stop. `texts` go into every checkpoint. -ERROR_NONFINITE_LOSS
 * with a sentence that names the step if the loss becomes NaN or infinite; errors of the data, of
 * writing checkpoints and of the events. After the first step only checkpoints allocate memory. */
int training_run(struct training *training, const struct checkpoint_texts *texts,
                 const struct training_events *events, struct training_requests *requests,
                 struct training_result *result, struct error *error);

struct session *training_session(struct training *training);
/* The run's profile, once it has ended; NULL if profile_steps is 0. */
const struct profile *training_profile(const struct training *training);
const struct checkpoint_state *training_state(const struct training *training);
/* Updates and epochs of the whole run. */
int64_t training_total_steps(const struct training *training);
int64_t training_total_epochs(const struct training *training);
/* Evaluations of the validation set in the whole run, unless it stops early. */
int64_t training_total_evaluations(const struct training *training);
/* The lengths of batches of sequences, and the share of the training samples that has each; a count
 * of 0 if all have one. */
const struct length_buckets *training_lengths(const struct training *training,
                                              double shares[LENGTH_BUCKETS_MAX]);
/* Measures the seconds to prepare a batch of the training set, on a few batches (some
 * milliseconds); NAN if the samples are not made yet. `overlaps`: batches will be prepared while
 * steps run. After training_prepare(). */
int training_measure_data(const struct training *training, double *seconds, bool *overlaps,
                          struct error *error);
/* Host memory of the run without arena and data: the session's scratch, the best weights and the
 * profile. */
size_t training_host_bytes(const struct training *training);
