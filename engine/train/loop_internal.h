/* loop_internal.h: what the files of the training loop share. loop.c orders a run; loop_step.c
 * trains on a batch, loop_measure.c does what follows an epoch, loop_report.c tells what goes on by
 * the clock, loop_checkpoint.c writes checkpoints. */
#pragma once

#include "engine/train/training_internal.h"

/* When the loop looks at the clock. */
struct pace {
    int64_t every, countdown; /* batches between two readings of the clock */
    double batch_seconds;     /* as the latest readings say; 0: not known yet */
    double next_progress, next_row, next_checkpoint;
    int64_t rows;
};

/* How long steps took, waiting for data included, evaluations and checkpoints not. A shorter last
 * batch is a part of a step. */
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
    double mark; /* up to when state->seconds counts */
    double started, run_start_samples, reported, reported_samples;
    int64_t checkpoint_step, checkpoint_epoch; /* what the latest checkpoint holds */
    double learning_rate;
    /* the loss: the state's loss_scale is that of the latest loop_read_sums() */
    bool device_scales;
    double evaluation_seconds;     /* of the present epoch, by this process */
    double epoch_energy;           /* loop_read_energy() at its begin; NAN: not known */
    double energy, energy_read_at; /* the latest reading of the meter, and when it was made */
    double marked_samples;         /* at `mark` */
    struct timing timed, told;     /* of this process after its first steps; what of it was told */
    /* Of a step, between the latest readings of the clock, in a ring. */
    double step_times[STEP_TIMES_KEPT];
    int64_t step_time_count;
    int best_file; /* the best checkpoint, open: its name may go meanwhile; -1: there is none */
    bool restored; /* the session has the best weights again, not those of the state's step */
};

/* Epochs done, with the fraction of the present one; the same in samples. */
double loop_epoch(const struct loop *loop);
double loop_samples(const struct loop *loop);

/* ---- loop_report.c ---- */

/* Begins to count the time of this run. */
void loop_start_clock(struct loop *loop);
/* Brings the counted seconds up to date; `training` for time spent in steps. Returns the time. */
double loop_mark(struct loop *loop, bool training);
/* session_energy(); NAN, too, where the latest reading was made only a moment ago. */
double loop_read_energy(struct loop *loop);
/* The median over the latest readings of the clock; NAN before there is one. Reorders them. */
double loop_median_step(struct loop *loop);
/* Reads the device's sums of the epoch; -ERROR_NONFINITE_LOSS with a sentence when the loss is no
 * number. */
int loop_read_sums(struct loop *loop, struct error *error);
/* After so many batches: reads the clock if it is time to and tells what is due by it. 1: read it,
 * 0: not yet. */
int loop_tick(struct loop *loop, int batches, struct error *error);

/* ---- loop_step.c ---- */

/* Batches of some milliseconds' work: what one launch may have at most. */
int loop_launch_batches(const struct loop *loop);
/* Trains on the next batches of the epoch, of which one has been fetched and has so many samples: a
 * micro-step of an accumulation, a step, or as many of them as one launch takes and nothing that
 * the loop does falls between. `batches`: how many it were. */
int loop_run_batches(struct loop *loop, int64_t samples, int *batches, struct error *error);

/* ---- loop_measure.c ---- */

void training_values_add(struct training_values *values, const char *name, double value);
/* Whether the validation set is due within the epoch, before the next batch. */
bool loop_evaluation_is_due(const struct loop *loop);
/* Measures the epoch so far, the validation set where that is due, tells it and does what follows
 * from it: the best, early stop, the plateau schedule. 1: asked to stop. */
int loop_measure(struct loop *loop, struct error *error);
/* Measures the finished epoch unless that is done, moves on to the next one. 1: asked to stop. */
int loop_finish_epoch(struct loop *loop, struct error *error);
/* Measures the test set and tells it under these names. 1: asked to stop. */
int loop_test(struct loop *loop, const char *loss_name, const char *accuracy_name,
              struct error *error);

/* Tells the last weights' results on the test set as the run's. */
int loop_test_was_last(struct loop *loop, struct error *error);

/* ---- loop_checkpoint.c ---- */

/* Writes a checkpoint of the present state, tells it and deletes those beyond retention; without a
 * folder only the loss is looked at. */
int loop_write_checkpoint(struct loop *loop, bool best, struct error *error);
/* Keeps the best checkpoint open, which this path names now; NULL: there is none. */
int loop_keep_best(struct loop *loop, const char *path, struct error *error);
/* The step of the run's best weights: those of the best checkpoint, else of the early stop's copy;
 * -1: none are called the best. */
int64_t loop_best_step(const struct loop *loop);
/* Whether they are other weights than the last ones, and still there. */
bool loop_has_better_weights(const struct loop *loop);
/* Puts them into the session, for evaluations alone. */
int loop_restore_best(struct loop *loop, struct error *error);
