/* loop.c: training_run(): the epochs of steps, and what comes before and after them.
 *
 * Everything that influences weights is a function of the steps done and of the stored state, never
 * of the time. So a resumed run repeats the uninterrupted one bit for bit. */
#include "engine/graph/optimizer.h"
#include "engine/train/agreement.h"
#include "engine/train/loop_internal.h"

#include <math.h>
#include <unistd.h>

double loop_epoch(const struct loop *loop)
{
    const struct training *training = loop->training;

    return (double)loop->state->epoch +
           (double)loop->state->position / (double)training->epoch_samples;
}

double loop_samples(const struct loop *loop)
{
    return loop_epoch(loop) * (double)loop->training->epoch_samples;
}

static bool loop_stop_requested(const struct loop *loop)
{
    return atomic_load_explicit(&loop->requests->stop, memory_order_relaxed) != 0;
}

/* After batches: reads the clock, handles requests, and writes checkpoints that are due by steps or
 * time. 1: stop. */
static int loop_after_batches(struct loop *loop, int batches, struct error *error)
{
    const struct training_config *config = &loop->training->config;
    const struct checkpoint_state *state = loop->state;
    bool due = config->checkpoint_every_steps && state->micro_step == 0 &&
               state->step % config->checkpoint_every_steps == 0;
    int r = loop_tick(loop, batches, error);

    if (r < 0)
        return r;
    if (r > 0)
        due |= config->checkpoint_every_seconds > 0 && loop->mark >= loop->pace.next_checkpoint;
    if (atomic_load_explicit(&loop->requests->checkpoint, memory_order_relaxed)) {
        atomic_store(&loop->requests->checkpoint, 0);
        due = true;
    }
    if (loop_stop_requested(loop))
        return 1;
    return due ? loop_write_checkpoint(loop, false, error) : 0;
}

/* Trains on the next batches. Returns 0, also at the end of the epoch (`more` is false then), or 1
 * if asked to stop. */
static int loop_next_batches(struct loop *loop, bool *more, struct error *error)
{
    struct training *training = loop->training;
    int64_t samples = 0;
    int batches, r;

    profile_enter(training->profile, PROFILE_DATA);
    r = feed_fetch(training->train, &samples, error);
    profile_enter(training->profile, PROFILE_OTHER);
    *more = r == 0 && samples > 0;
    if (!*more)
        return r;
    r = loop_run_batches(loop, samples, &batches, error);
    return r == 0 ? loop_after_batches(loop, batches, error) : r;
}

/* Waits for steps that are still running. Their time belongs to the training. */
static int loop_settle(struct loop *loop, struct error *error)
{
    int r = loop_read_sums(loop, error);

    loop_mark(loop, true);
    return r;
}

/* Trains the rest of the present epoch, with evaluations in between. Returns 0 at the epoch's end,
 * at the run's last step or at an early stop, and 1 if asked to stop. */
static int loop_train_epoch(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    const struct checkpoint_state *state = loop->state;
    bool more = true;
    int r;

    profile_enter(training->profile, PROFILE_DATA);
    r = feed_begin_epoch(training->train, (uint32_t)state->epoch, state->position, error);
    profile_enter(training->profile, PROFILE_OTHER);
    if (r == 0 && state->position == 0)
        r = session_clear_states(training->session, true, error);
    while (r == 0 && more && state->step < training->total_steps) {
        if (loop_evaluation_is_due(loop)) {
            r = loop_settle(loop, error);
            if (r == 0)
                r = loop_measure(loop, error);
            more = !tracker_should_stop(&state->early);
        } else {
            r = loop_next_batches(loop, &more, error);
        }
    }
    if (r == 0 && state->step < training->total_steps)
        r = feed_prepare_epoch(training->train, (uint32_t)state->epoch + 1, error);
    feed_end_epoch(training->train);
    if (r == 0)
        return loop_settle(loop, error);
    loop_mark(loop, true);
    return r;
}

/* ---- the whole run ---- */

/* Returns 0 when all epochs are done or the run has stopped early, and 1 if asked to stop. */
static int loop_epochs(struct loop *loop, struct error *error)
{
    const struct checkpoint_state *state = loop->state;
    int64_t total = loop->training->total_steps;
    int r = 0;

    /* if the checkpoint was written between the last step and its measurement, that is still due */
    while (r == 0 && !loop->result->stopped_early &&
           (state->step < total || (state->position > 0 && state->measured_step != state->step))) {
        r = loop_train_epoch(loop, error);
        if (r == 0)
            r = loop_finish_epoch(loop, error);
        loop->result->stopped_early = tracker_should_stop(&state->early) && state->step < total;
    }
    return r;
}

/* After the last epoch: writes the final checkpoint, and tests the weights that an export gives,
 * which are the best ones. If these are not the last ones, it tests both. 1: asked to stop. */
static int loop_finish(struct loop *loop, struct error *error)
{
    struct training_result *result = loop->result;
    int r = 0;

    if (loop->checkpoint_step != loop->state->step || loop->checkpoint_epoch != loop->state->epoch)
        r = loop_write_checkpoint(loop, false, error);
    result->weights_step = loop->state->step;
    if (r != 0)
        return r;
    if (!loop_has_better_weights(loop)) {
        result->best_weights = loop_best_step(loop) == loop->state->step;
        return loop_test(loop, METRIC_TEST, error);
    }
    r = loop_test(loop, METRIC_LAST_TEST, error);
    if (r != 0)
        return r;
    /* the run is complete, so if its best weights cannot be read, only their test is lost */
    if (loop_restore_best(loop, &result->best_problem) < 0)
        return loop_test_was_last(loop, error);
    result->best_weights = true;
    result->weights_step = loop_best_step(loop);
    return loop_test(loop, METRIC_TEST, error);
}

/* Asked to stop: writes into the checkpoint what this device computes, so that another device can
 * compare. */
static int loop_leave(struct loop *loop, struct error *error)
{
    struct training *training = loop->training;
    struct error ignored;
    int r = loop_read_sums(loop, error);

    if (r < 0 || !training->config.checkpoint_directory || loop->restored)
        return r;
    if (training->state.step < training->total_steps)
        agreement_measure(training, &training->state.agreement, &ignored);
    return loop_write_checkpoint(loop, false, error);
}

/* Whether the device can adapt the loss scale by itself. With moving averages, or with products of
 * momenta, the host has to know at once which updates were left out. */
static bool device_scales(const struct loop *loop)
{
    const struct session *session = loop->training->session;
    const struct graph *graph = session_graph(session);
    bool momenta = false;

    for (int i = 0; i < graph->group_count; i++)
        momenta |= optimizer_of(&graph->groups[i].config)->momentum != NULL;
    return loop->state->loss_scale.scale > 0 && session_scales_loss(session) && !momenta &&
           !training_averages(&loop->training->config);
}

static int loop_start(struct loop *loop, struct error *error)
{
    const struct checkpoint_state *state = loop->state;
    int64_t latest = state->micro_step || !state->step ? state->step + 1 : state->step;

    loop_start_clock(loop);
    loop->energy = NAN;
    loop->next_energy = -INFINITY;
    loop->epoch_energy = state->position == 0 ? loop_read_energy(loop) : NAN;
    if (loop->training->profile)
        profile_begin(loop->training->profile, (loop->training->total_steps - state->step) *
                                                   loop->training->config.accumulate);
    loop->device_scales = device_scales(loop);
    if (loop->device_scales)
        session_write_loss_scale(loop->training->session, &state->loss_scale);
    loop->checkpoint_step = loop->checkpoint_epoch = -1;
    loop->learning_rate = schedule_learning_rate(&loop->training->config.schedule, &state->plateau,
                                                 latest - loop->training->steps_before);
    loop->result->stopped_early = tracker_should_stop(&state->early);
    return loop_keep_best(loop, loop->training->config.best_checkpoint, error);
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
                        .result = result,
                        .best_file = -1};
    int r, interrupted = 0;

    *result = (struct training_result){0};
    r = loop_start(&loop, error);
    if (r == 0)
        r = loop_epochs(&loop, error);
    if (r == 0)
        r = loop_finish(&loop, error);
    else if (r == 1)
        interrupted = loop_leave(&loop, error);
    profile_enter(training->profile, PROFILE_OTHER);
    result->outcome = r == 1 ? TRAINING_INTERRUPTED : TRAINING_COMPLETED;
    result->steps = training->state.step;
    result->seconds = training->state.seconds;
    result->steps_timed = loop.timed.steps;
    result->step_seconds = loop.timed.steps > 0 ? loop.timed.seconds / loop.timed.steps : NAN;
    result->step_seconds_median = loop_median_step(&loop);
    if (loop.best_file >= 0)
        close(loop.best_file);
    return r < 0 ? r : interrupted;
}
