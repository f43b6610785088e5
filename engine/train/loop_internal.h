/* loop_internal.h: shared by the files of the training loop. loop.c has the sequence of a run,
 * loop_step.c trains on a batch, loop_measure.c does the work after an epoch, loop_report.c reports
 * at intervals of time, and loop_checkpoint.c writes checkpoints. */
#pragma once

#include "engine/train/training_internal.h"

/* When the loop looks at the clock. */
struct pace {
    int64_t every, countdown; /* batches between two readings of the clock */
    double batch_seconds;     /* from the latest readings; 0: unknown */
    double next_progress, next_row, next_checkpoint;
    int64_t rows;
};

/* The time of steps, with waiting for data but without evaluations and checkpoints. A shorter last
 * batch counts as a fraction of a step. */
struct timing {
    double seconds, steps;
};

enum { STEP_TIMES_KEPT = 256 };

struct loop {
    struct training *training;
    struct checkpoint_state *state;
    const struct checkpoint_texts *texts;
    const struct training_events *events;
    struct training_requests *requests;
    struct training_result *result;
    struct pace pace;
    double mark; /* state->seconds counts the time up to this moment */
    double started, run_start_samples, reported, reported_samples;
    int64_t checkpoint_step, checkpoint_epoch; /* step and epoch of the latest checkpoint */
    double learning_rate;
    /* the device scales the loss itself; state->loss_scale was read by the latest
     * loop_read_sums() */
    bool device_scales;
    double evaluation_seconds;  /* of the present epoch, in this process */
    double epoch_energy;        /* loop_read_energy() at the epoch's beginning; NAN: unknown */
    double energy, next_energy; /* the latest reading of the meter; no other before this time */
    double marked_samples;      /* loop_samples() at `mark` */
    /* all steps of this process but its first ones; the part that has been reported */
    struct timing timed, told;
    /* Ring buffer: seconds of a step between two readings of the clock, for the latest readings. */
    double step_times[STEP_TIMES_KEPT];
    int64_t step_time_count;
    /* the best checkpoint, kept open because its name may be removed; -1: there is none */
    int best_file;
    bool restored; /* the session has the best weights, not those of the state's step */
};

/* Epochs done, including the fraction of the present one; and the same in samples. */
double loop_epoch(const struct loop *loop);
double loop_samples(const struct loop *loop);

/* ---- loop_report.c ---- */

/* Starts to count the time of this run. */
void loop_start_clock(struct loop *loop);
/* Adds the time since the last mark to the counted seconds; `training`: the time was spent in
 * steps. Returns the present time. */
double loop_mark(struct loop *loop, bool training);
/* session_energy(), or NAN if another reading now would take too much of the time. */
double loop_read_energy(struct loop *loop);
/* The median of `step_times`, which it reorders; NAN if there are none. */
double loop_median_step(struct loop *loop);
/* Reads the device's sums of the epoch; -ERROR_NONFINITE_LOSS with a sentence if the loss is NaN or
 * infinite. */
int loop_read_sums(struct loop *loop, struct error *error);
/* Call after `batches` batches: if it is time, reads the clock and reports what is due. 1: it read
 * the clock, 0: not yet. */
int loop_tick(struct loop *loop, int batches, struct error *error);

/* ---- loop_step.c ---- */

/* The largest number of batches of one launch: some milliseconds of work. */
int loop_launch_batches(const struct loop *loop);
/* Trains on the next batches of the epoch; the first one has been fetched and has `samples`
 * samples. Runs a micro-step of an accumulation, a step, or as many steps as fit into one launch
 * before the loop has other work. Tells their number in `batches`. */
int loop_run_batches(struct loop *loop, int64_t samples, int *batches, struct error *error);

/* ---- loop_measure.c ---- */

void training_values_add(struct training_values *values, const char *name, double value);
/* Whether the validation set is to be evaluated now, before the next batch of the epoch. */
bool loop_evaluation_is_due(const struct loop *loop);
/* Measures the epoch so far, and the validation set if it is due, and reports the metrics. Then
 * updates the best checkpoint, the early stop and the plateau schedule. 1: asked to stop. */
int loop_measure(struct loop *loop, struct error *error);
/* Measures the finished epoch, unless that is done, and begins the next one. 1: asked to stop. */
int loop_finish_epoch(struct loop *loop, struct error *error);
/* Measures the test set and reports it as METRIC_TEST or METRIC_LAST_TEST. 1: asked to stop. */
int loop_test(struct loop *loop, enum metric_subset subset, struct error *error);

/* Reports the last weights' results on the test set as those of the run. */
int loop_test_was_last(struct loop *loop, struct error *error);

/* ---- loop_checkpoint.c ---- */

/* Writes a checkpoint of the present state, reports it and deletes those beyond retention. Without
 * a folder it only checks the loss. */
int loop_write_checkpoint(struct loop *loop, bool best, struct error *error);
/* Opens the best checkpoint at `path` and keeps it open; NULL: there is none. */
int loop_keep_best(struct loop *loop, const char *path, struct error *error);
/* The step of the run's best weights, which are in the best checkpoint or else in the early stop's
 * copy; -1: the run has no best weights. */
int64_t loop_best_step(const struct loop *loop);
/* Whether the best weights are not the last ones and are still available. */
bool loop_has_better_weights(const struct loop *loop);
/* Copies the best weights into the session, for evaluation only. */
int loop_restore_best(struct loop *loop, struct error *error);
