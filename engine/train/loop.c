/* loop.c: training_run(): epochs of steps, evaluation, metrics, checkpoints, early stop.
 *
 * A small model's step takes 12 microseconds, so the loop reads the clock and the device's sums
 * only every few steps, adapted so that some milliseconds lie between (struct pace). Everything
 * that decides about weights is a function of the steps done, never of the time: a resumed run
 * repeats the uninterrupted one bit for bit. */
#include "engine/train/evaluation.h"
#include "engine/train/training_internal.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const double progress_period = 0.25, row_period = 0.5; /* seconds */
enum { FIRST_ROWS = 5, PACE_STEPS_MAX = 4096 };

struct pace {
    int64_t every, countdown; /* batches between two readings of the clock */
    double read, next_progress, next_row, next_checkpoint;
    int64_t rows;
};

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
};

static double clock_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Brings the counted seconds up to date; `training` for time spent in steps. */
static double loop_mark(struct loop *loop, bool training)
{
    double now = clock_seconds();

    loop->state->seconds += now - loop->mark;
    if (training)
        loop->state->epoch_seconds += now - loop->mark;
    loop->mark = now;
    return now;
}

static double loop_epoch(const struct loop *loop)
{
    const struct training *training = loop->training;

    return (double)loop->state->epoch +
           (double)loop->state->position / (double)training->data.train.count;
}

static double loop_samples(const struct loop *loop)
{
    return loop_epoch(loop) * (double)loop->training->data.train.count;
}

static bool loop_stop_requested(const struct loop *loop)
{
    return atomic_load_explicit(&loop->requests->stop, memory_order_relaxed) != 0;
}

static void add_value(struct training_values *values, const char *name, double value)
{
    if (values->count < TRAINING_VALUES_MAX)
        values->values[values->count++] = (struct training_value){name, value};
}

static double find_value(const struct training_values *values, const char *name)
{
    for (int i = 0; i < values->count; i++) {
        if (strcmp(values->values[i].name, name) == 0)
            return values->values[i].value;
    }
    return NAN;
}

/* Reads the device's sums of the epoch; a loss that is no number ends the run. */
static int loop_read_sums(struct loop *loop, struct error *error)
{
    struct step_metrics *sums = &loop->state->sums;

    session_read_metrics(loop->training->session, true, sums);
    if (sums->nonfinite_step)
        return error_set(error, -EDOM,
                         "the loss became NaN or infinite at step %lld: lower train.optimizer.lr, "
                         "set train.clip_norm, or look for values out of range in the data",
                         (long long)sums->nonfinite_step);
    return 0;
}

/* ---- checkpoints ---- */

static void delete_removed(const struct loop *loop, const struct training_checkpoint *written)
{
    for (int i = 0; i < written->removed_count; i++) {
        char path[PATH_MAX], name[CHECKPOINT_PATH_MAX];

        checkpoint_file_name(written->removed[i], name);
        snprintf(path, sizeof path, "%s/%s", loop->training->config.checkpoint_directory, name);
        remove(path);
    }
}

static int loop_write_checkpoint(struct loop *loop, bool best, struct error *error)
{
    struct training *training = loop->training;
    char path[PATH_MAX], name[CHECKPOINT_PATH_MAX], digest[SAFETENSORS_DIGEST_SIZE];
    struct training_checkpoint written = {.step = loop->state->step,
                                          .epoch = loop_epoch(loop),
                                          .file = name,
                                          .digest = digest,
                                          .best = best,
                                          .values = &loop->result->values};
    int r = loop_read_sums(loop, error);

    if (r < 0 || !training->config.checkpoint_directory)
        return r;
    checkpoint_file_name(loop->state->step, name);
    if (snprintf(path, sizeof path, "%s/%s", training->config.checkpoint_directory, name) >=
        (int)sizeof path)
        return error_set(error, -ENAMETOOLONG, "the checkpoint folder's path is too long");
    loop_mark(loop, false);
    r = checkpoint_write(training->session, loop->state, loop->texts,
                         training->best_weights.values ? &training->best_weights : NULL, path,
                         digest, &written.bytes, error);
    if (r < 0)
        return r;
    loop->checkpoint_step = loop->state->step;
    loop->checkpoint_epoch = loop->state->epoch;
    loop->pace.next_checkpoint = loop_mark(loop, false) + training->config.checkpoint_every_seconds;
    written.removed_count =
        checkpoint_folder_add(&training->folder, written.step, best, written.removed);
    r = loop->events->checkpoint ? loop->events->checkpoint(loop->events->context, &written, error)
                                 : 0;
    delete_removed(loop, &written);
    return r;
}

/* ---- what is told while an epoch runs ---- */

static int loop_tell_progress(struct loop *loop, double now, struct error *error)
{
    const struct training *training = loop->training;
    double done = loop_samples(loop), fresh = done - loop->run_start_samples;
    double total = (double)training->total_steps / (double)training->steps_per_epoch *
                   (double)training->data.train.count;
    double elapsed = now - loop->started, since = now - loop->reported;
    struct training_progress progress = {
        .step = loop->state->step,
        .steps = training->total_steps,
        .epoch = loop_epoch(loop),
        .loss = loop->state->sums.last_loss,
        .samples_per_second = since > 0 ? (done - loop->reported_samples) / since : 0,
        .seconds_left = fresh > 0 && total > done ? (total - done) / fresh * elapsed : 0};

    loop->reported = now;
    loop->reported_samples = done;
    loop->pace.next_progress = now + progress_period;
    return loop->events->progress ? loop->events->progress(loop->events->context, &progress, error)
                                  : 0;
}

static int loop_tell_row(struct loop *loop, double now, struct error *error)
{
    struct training_values values = {.count = 0};

    loop->pace.next_row = now + row_period;
    loop->pace.rows++;
    if (loop->state->position == loop->training->data.train.count)
        return 0; /* the epoch's own record follows at once */
    add_value(&values, "step_loss", loop->state->sums.last_loss);
    add_value(&values, "learning_rate", loop->learning_rate);
    return loop->events->metrics ? loop->events->metrics(loop->events->context, loop->state->step,
                                                         loop_epoch(loop), &values, error)
                                 : 0;
}

/* One reading of the clock: what is due by time. */
static int loop_tick(struct loop *loop, struct error *error)
{
    struct pace *pace = &loop->pace;
    double now = loop_mark(loop, true), elapsed = now - pace->read;
    int r = 0;

    if (elapsed < 0.002 && pace->every < PACE_STEPS_MAX)
        pace->every *= 2;
    else if (elapsed > 0.01 && pace->every > 1)
        pace->every /= 2;
    if (pace->rows < FIRST_ROWS)
        pace->every = 1;
    pace->read = now;
    pace->countdown = pace->every;
    if (now < pace->next_progress && now < pace->next_row && pace->rows >= FIRST_ROWS)
        return 0;
    r = loop_read_sums(loop, error);
    if (r == 0 && now >= pace->next_progress)
        r = loop_tell_progress(loop, now, error);
    if (r == 0 && (pace->rows < FIRST_ROWS || now >= pace->next_row))
        r = loop_tell_row(loop, now, error);
    return r;
}

/* ---- steps ---- */

/* Trains on one batch: a whole step, or one micro-step of an accumulation. */
static int loop_batch(struct loop *loop, const struct loader_batch *batch, struct error *error)
{
    const struct training_config *config = &loop->training->config;
    struct checkpoint_state *state = loop->state;
    int64_t count = loop->training->data.train.count;
    int64_t group_start = state->position - state->micro_step * config->batch;
    int64_t group = config->accumulate * config->batch;
    bool update =
        state->micro_step + 1 == config->accumulate || state->position + batch->count == count;
    struct step_scalars scalars = {.step = state->step + 1,
                                   .batch = state->batches + 1,
                                   .seed = config->seed,
                                   .accumulate = state->micro_step > 0,
                                   .clip_norm = (float)config->clip_norm};
    int r;

    if (group > count - group_start)
        group = count - group_start; /* the tail of an epoch has an update of its own */
    loop->learning_rate = schedule_learning_rate(&config->schedule, scalars.step);
    scalars.learning_rate = (float)loop->learning_rate;
    scalars.gradient_scale = (float)((double)batch->count / (double)group);
    r = session_step(loop->training->session,
                     &(struct session_batch){batch->count, batch->samples, batch->targets},
                     update ? PROGRAM_STEP : PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, error);
    if (r < 0)
        return r;
    state->batches++;
    state->position += batch->count;
    state->micro_step = update ? 0 : state->micro_step + 1;
    state->step += update;
    return 0;
}

/* After a batch: the clock, requests, checkpoints by steps or time. 1: stop. */
static int loop_after_batch(struct loop *loop, struct error *error)
{
    const struct training_config *config = &loop->training->config;
    const struct checkpoint_state *state = loop->state;
    bool due = config->checkpoint_every_steps && state->micro_step == 0 &&
               state->step % config->checkpoint_every_steps == 0;
    int r;

    if (--loop->pace.countdown <= 0) {
        r = loop_tick(loop, error);
        if (r < 0)
            return r;
        due |= config->checkpoint_every_seconds > 0 && loop->mark >= loop->pace.next_checkpoint;
    }
    if (atomic_load_explicit(&loop->requests->checkpoint, memory_order_relaxed)) {
        atomic_store(&loop->requests->checkpoint, 0);
        due = true;
    }
    if (loop_stop_requested(loop))
        return 1;
    return due ? loop_write_checkpoint(loop, false, error) : 0;
}

/* The rest of the present epoch. 0: at its end or the run's last step; 1: asked to stop. */
static int loop_train_epoch(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    int held = 0;
    int r = loader_begin_epoch(training->train, (uint32_t)loop->state->epoch, loop->state->position,
                               error);

    while (r == 0 && loop->state->step < training->total_steps) {
        struct loader_batch batch;

        r = loader_next(training->train, &batch, error);
        if (r < 0 || batch.count == 0)
            break;
        held++;
        r = loop_batch(loop, &batch, error);
        if (held == LOADER_HELD_MAX) {
            loader_release(training->train);
            held--;
        }
        if (r == 0)
            r = loop_after_batch(loop, error);
    }
    while (held-- > 0)
        loader_release(training->train);
    loop_mark(loop, true);
    return r;
}

/* ---- the end of an epoch ---- */

static int loop_evaluate(struct loop *loop, struct loader *loader, const char *loss_name,
                         const char *accuracy_name, struct error *error)
{
    struct training_values *values = &loop->result->values;
    struct step_metrics metrics;
    int r;

    if (!loader)
        return 0;
    r = evaluation_run(loop->training->session, loader, NULL, NULL, &loop->requests->stop, &metrics,
                       error);
    loop_mark(loop, false);
    if (r == -EINTR)
        return 1;
    if (r < 0)
        return r;
    add_value(values, loss_name, metrics.loss_sum / (double)metrics.samples);
    if (loop->training->classification)
        add_value(values, accuracy_name, (double)metrics.correct / (double)metrics.samples);
    return 0;
}

/* Fills the result's values with those of the epoch. 1: asked to stop. */
static int loop_measure_epoch(struct loop *loop, struct error *error)
{
    const struct step_metrics *sums = &loop->state->sums;
    struct training_values *values = &loop->result->values;
    double before = loop->mark;
    int r = loop_read_sums(loop, error);

    values->count = 0;
    if (r < 0)
        return r;
    if (sums->samples) {
        add_value(values, "train_loss", sums->loss_sum / (double)sums->samples);
        if (loop->training->classification)
            add_value(values, "train_accuracy", (double)sums->correct / (double)sums->samples);
    }
    r = loop_evaluate(loop, loop->training->validation, "validation_loss", "validation_accuracy",
                      error);
    if (r != 0)
        return r;
    if (loop->state->epoch_seconds > 0)
        add_value(values, "samples_per_second", (double)sums->samples / loop->state->epoch_seconds);
    add_value(values, "learning_rate", loop->learning_rate);
    add_value(values, "epoch_seconds", loop->state->epoch_seconds + (loop->mark - before));
    return 0;
}

/* Measures the finished epoch, tells it, moves on to the next one. 1: asked to stop. */
static int loop_finish_epoch(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    const struct training_config *config = &training->config;
    struct checkpoint_state *state = loop->state;
    bool whole = state->position == training->data.train.count, best = false;
    double epoch = loop_epoch(loop);
    int r = loop_measure_epoch(loop, error);

    if (r == 0 && loop->events->metrics)
        r = loop->events->metrics(loop->events->context, state->step, epoch, &loop->result->values,
                                  error);
    if (r != 0)
        return r;
    if (config->best_metric)
        best = tracker_update(&state->best, find_value(&loop->result->values, config->best_metric),
                              state->step, epoch);
    if (config->early_metric &&
        tracker_update(&state->early, find_value(&loop->result->values, config->early_metric),
                       state->step, epoch) &&
        training->best_weights.values)
        r = weights_copy_save(&training->best_weights, training->session, error);
    if (r == 0 && best && loop->events->best)
        r = loop->events->best(loop->events->context, &state->best, error);
    if (r < 0)
        return r;
    if (whole) {
        state->epoch++;
        state->position = 0;
        state->epoch_seconds = 0;
        session_reset_metrics(training->session, true);
    }
    if (best || (whole && config->checkpoint_every_epochs &&
                 state->epoch % config->checkpoint_every_epochs == 0))
        r = loop_write_checkpoint(loop, best, error);
    return r;
}

/* ---- the whole run ---- */

/* 0: all epochs done or stopped early; 1: asked to stop. */
static int loop_epochs(struct loop *loop, struct error *error)
{
    struct checkpoint_state *state = loop->state;
    int64_t total = loop->training->total_steps;
    /* a checkpoint written between the last batch of an epoch and its evaluation */
    bool unmeasured = state->position > 0;
    int r = 0;

    while (r == 0 && !loop->result->stopped_early && (state->step < total || unmeasured)) {
        r = loop_train_epoch(loop, error);
        if (r == 0)
            r = loop_finish_epoch(loop, error);
        unmeasured = false;
        loop->result->stopped_early = tracker_should_stop(&state->early) && state->step < total;
    }
    return r;
}

/* After the last epoch: the final checkpoint, the best weights, the test set. 1: asked to stop. */
static int loop_finish(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    int r = 0;

    if (loop->checkpoint_step != loop->state->step || loop->checkpoint_epoch != loop->state->epoch)
        r = loop_write_checkpoint(loop, false, error);
    if (r == 0 && training->best_weights.filled) {
        r = weights_copy_restore(&training->best_weights, training->session, error);
        loop->result->best_weights = true;
    }
    if (r == 0)
        r = loop_evaluate(loop, training->test, "test_loss", "test_accuracy", error);
    if (r == 0 && training->test && loop->events->metrics) {
        struct training_values test = {.count = 0};

        for (int i = 0; i < loop->result->values.count; i++) {
            const struct training_value *value = &loop->result->values.values[i];

            if (strncmp(value->name, "test_", 5) == 0)
                add_value(&test, value->name, value->value);
        }
        r = loop->events->metrics(loop->events->context, loop->state->step, loop_epoch(loop), &test,
                                  error);
    }
    return r;
}

static void loop_start(struct loop *loop)
{
    double now = clock_seconds();

    loop->mark = loop->started = loop->reported = now;
    loop->run_start_samples = loop->reported_samples = loop_samples(loop);
    loop->pace =
        (struct pace){.every = 1,
                      .countdown = 1,
                      .read = now,
                      .next_progress = now + progress_period,
                      .next_row = now + row_period,
                      .next_checkpoint = now + loop->training->config.checkpoint_every_seconds};
    loop->checkpoint_step = loop->checkpoint_epoch = -1;
    loop->learning_rate =
        schedule_learning_rate(&loop->training->config.schedule, loop->state->step + 1);
    loop->result->stopped_early = tracker_should_stop(&loop->state->early);
}

int training_run(struct training *training, const struct checkpoint_texts *texts,
                 const struct training_events *events, struct training_requests *requests,
                 struct training_result *result, struct error *error)
{
    struct loop loop = {.training = training,
                        .state = &training->state,
                        .texts = texts,
                        .events = events,
                        .requests = requests,
                        .result = result};
    int r, interrupted = 0;

    *result = (struct training_result){0};
    loop_start(&loop);
    r = loop_epochs(&loop, error);
    if (r == 0)
        r = loop_finish(&loop, error);
    else if (r == 1)
        interrupted = loop_write_checkpoint(&loop, false, error);
    result->outcome = r == 1 ? TRAINING_INTERRUPTED : TRAINING_COMPLETED;
    result->steps = training->state.step;
    result->seconds = training->state.seconds;
    return r < 0 ? r : interrupted;
}
