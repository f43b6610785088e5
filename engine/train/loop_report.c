/* loop_report.c: the run's clock, and the reports at regular times.
 *
 * A step of a small model takes 12 microseconds. So the loop reads the clock and the device's sums
 * only every few batches, some milliseconds apart (struct pace). Nothing here influences
 * weights. */
#include "engine/train/loop_internal.h"

#include <math.h>
#include <stdlib.h>

static const double progress_period = 0.25, row_period = 0.5; /* in seconds */
/* The energy meter advances in steps of this many seconds. On an H100 a reading takes 5 ms, during
 * which the driver answers no other process that uses the GPU. With a reading at the end of each
 * epoch, twelve small jobs with epochs of that length took three times as long. The GPU waits, too.
 * So readings take at most this share of the time, unless they are further apart than a second. */
static const double meter_period = 0.1, meter_period_max = 1, meter_share = 0.01;
/* The first steps are reported one by one. They are not timed, because they touch memory and fill
 * caches. */
enum { FIRST_ROWS = 5, PACE_STEPS_MAX = 4096 };

static double progress_seconds(const struct loop *loop)
{
    double wanted = loop->training->config.progress_seconds;

    return wanted > 0 ? wanted : progress_period;
}

void loop_start_clock(struct loop *loop)
{
    double now = session_seconds(loop->training->session);

    loop->mark = loop->started = loop->reported = now;
    loop->run_start_samples = loop->reported_samples = loop->marked_samples = loop_samples(loop);
    loop->pace =
        (struct pace){.every = 1,
                      .countdown = 1,
                      .next_progress = now + progress_seconds(loop),
                      .next_row = now + row_period,
                      .next_checkpoint = now + loop->training->config.checkpoint_every_seconds};
}

double loop_mark(struct loop *loop, bool training)
{
    const struct training_config *config = &loop->training->config;
    double now = session_seconds(loop->training->session), samples = loop_samples(loop);

    loop->state->seconds += now - loop->mark;
    if (training)
        loop->state->epoch_seconds += now - loop->mark;
    if (training && loop->pace.rows >= FIRST_ROWS) {
        double steps =
            (samples - loop->marked_samples) / (double)(config->batch * config->accumulate);

        loop->timed.seconds += now - loop->mark;
        loop->timed.steps += steps;
        if (steps > 0)
            loop->step_times[loop->step_time_count++ % STEP_TIMES_KEPT] =
                (now - loop->mark) / steps;
    }
    loop->mark = now;
    loop->marked_samples = samples;
    return now;
}

double loop_read_energy(struct loop *loop)
{
    double now = session_seconds(loop->training->session), taken;

    loop->energy = NAN;
    if (now < loop->next_energy)
        return NAN;
    loop->energy = session_energy(loop->training->session);
    taken = session_seconds(loop->training->session) - now;
    loop->next_energy = now + fmin(fmax(meter_period, taken / meter_share), meter_period_max);
    return loop->energy;
}

static int compare_times(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;

    return (a > b) - (a < b);
}

double loop_median_step(struct loop *loop)
{
    int64_t count =
        loop->step_time_count < STEP_TIMES_KEPT ? loop->step_time_count : STEP_TIMES_KEPT;

    if (count == 0)
        return NAN;
    qsort(loop->step_times, (size_t)count, sizeof *loop->step_times, compare_times);
    return (loop->step_times[(count - 1) / 2] + loop->step_times[count / 2]) / 2;
}

int loop_read_sums(struct loop *loop, struct error *error)
{
    struct step_metrics *sums = &loop->state->sums;

    session_read_metrics(loop->training->session, true, sums);
    session_read_losses(loop->training->session, &loop->state->losses);
    if (loop->device_scales)
        session_read_loss_scale(loop->training->session, &loop->state->loss_scale);
    if (sums->nonfinite_step)
        return error_set(error, -ERROR_NONFINITE_LOSS,
                         "the loss became NaN or infinite at step %lld: lower train.optimizer.lr, "
                         "set train.clip_norm, or look for values out of range in the data and in "
                         "the weights that it began with",
                         (long long)sums->nonfinite_step);
    return loss_scale_check(&loop->state->loss_scale, error);
}

static int loop_tell_progress(struct loop *loop, double now, struct error *error)
{
    const struct training *training = loop->training;
    double done = loop_samples(loop), fresh = done - loop->run_start_samples;
    double total = (double)(training->total_steps - training->steps_before) /
                   (double)training->steps_per_epoch * (double)training->epoch_samples;
    double elapsed = now - loop->started, since = now - loop->reported;
    struct timing fresh_steps = {loop->timed.seconds - loop->told.seconds,
                                 loop->timed.steps - loop->told.steps};
    struct training_progress progress = {
        .step = loop->state->step,
        .steps = training->total_steps,
        .epoch = loop_epoch(loop),
        .loss = loop->state->sums.last_loss,
        .samples_per_second = since > 0 ? (done - loop->reported_samples) / since : 0,
        .seconds_left = fresh > 0 && total > done ? (total - done) / fresh * elapsed : 0,
        .steps_timed = fresh_steps.steps,
        .step_seconds = fresh_steps.steps > 0 ? fresh_steps.seconds / fresh_steps.steps : NAN};

    loop->told = loop->timed;
    loop->reported = now;
    loop->reported_samples = done;
    loop->pace.next_progress = now + progress_seconds(loop);
    return loop->events->progress ? loop->events->progress(loop->events->context, &progress, error)
                                  : 0;
}

static int loop_tell_row(struct loop *loop, double now, struct error *error)
{
    struct training_values values = {.count = 0};

    loop->pace.next_row = now + row_period;
    loop->pace.rows++;
    if (loop->state->position == loop->training->epoch_samples || loop_evaluation_is_due(loop))
        return 0; /* the record of a measurement follows at once */
    training_values_add(&values, "step_loss", loop->state->sums.last_loss);
    training_values_add(&values, "learning_rate", loop->learning_rate);
    return loop->events->metrics ? loop->events->metrics(loop->events->context, loop->state->step,
                                                         loop_epoch(loop), &values, error)
                                 : 0;
}

/* Updates the time of a batch, and returns the clock. Other work between two readings (an
 * evaluation, the epoch's end) does not count. A device that has just been waited for accepts
 * launches faster than it executes them, so the time decreases by at most half. */
static double read_clock(struct loop *loop)
{
    struct pace *pace = &loop->pace;
    double mark = loop->mark, samples = loop->marked_samples;
    double now = loop_mark(loop, true);
    double batches = (loop->marked_samples - samples) / (double)loop->training->config.batch;

    if (batches > 0)
        pace->batch_seconds = fmax((now - mark) / batches, pace->batch_seconds / 2);
    return now;
}

int loop_tick(struct loop *loop, int batches, struct error *error)
{
    struct pace *pace = &loop->pace;
    const bool each = schedule_is_test(loop->training->config.schedule.kind);
    double now, elapsed;
    int r = 0;

    pace->countdown -= batches;
    if (pace->countdown > 0)
        return 0;
    now = read_clock(loop);
    elapsed = pace->batch_seconds * (double)(pace->every - pace->countdown);
    if (elapsed < 0.002 && pace->every < PACE_STEPS_MAX)
        pace->every *= 2;
    else if (elapsed > 0.01 && pace->every > 1)
        pace->every /= 2;
    if (each || pace->rows < FIRST_ROWS)
        pace->every = 1;
    pace->countdown = pace->every;
    if (now < pace->next_progress && now < pace->next_row && pace->rows >= FIRST_ROWS && !each)
        return 1;
    r = loop_read_sums(loop, error);
    if (r == 0 && now >= pace->next_progress)
        r = loop_tell_progress(loop, now, error);
    if (r == 0 && (each || pace->rows < FIRST_ROWS || now >= pace->next_row))
        r = loop_tell_row(loop, now, error);
    return r < 0 ? r : 1;
}
