/* loop_step.c: makes batches into launches: the scalars of each step, how many steps one launch
 * has, and how they advance the run. */
#include "engine/graph/optimizer.h"
#include "engine/train/loop_internal.h"

/* The scalars of the next batch's step. `update`: whether it ends with an update. */
static struct step_scalars batch_scalars(const struct loop *loop, int64_t samples, bool update)
{
    const struct training_config *config = &loop->training->config;
    const struct schedule_config *schedule = &config->schedule;
    const struct checkpoint_state *state = loop->state;
    int64_t group_start = state->position - state->micro_step * config->batch;
    int64_t rest = loop->training->epoch_samples - group_start;
    int64_t group = config->accumulate * config->batch;
    struct step_scalars scalars = {.step = state->step + 1,
                                   .batch = state->batches + 1,
                                   .seed = config->seed,
                                   .learning_rate = (float)loop->learning_rate,
                                   .accumulate = state->micro_step > 0,
                                   .clip_norm = (float)config->clip_norm,
                                   .clip_value = (float)config->clip_value,
                                   .momentum_product = state->momentum_product,
                                   .loss_scale = (float)state->loss_scale.scale,
                                   .skipped = state->loss_scale.skipped,
                                   .scales_itself = loop->device_scales};

    if (group > rest)
        group = rest; /* the last batches of an epoch have an update of their own */
    scalars.gradient_scale = (float)((double)samples / (double)group);
    scalars.cycle_momentum = schedule->cycle_momentum;
    if (schedule->cycle_momentum)
        scalars.momentum = schedule_momentum(schedule, scalars.step - loop->training->steps_before);
    if (update && optimizer_of(&config->optimizer)->momentum)
        scalars.momentum_product *=
            optimizer_of(&config->optimizer)
                ->momentum(&config->optimizer,
                           schedule->cycle_momentum ? scalars.momentum : config->optimizer.beta1,
                           scalars.step - scalars.skipped);
    if (update && config->average_decay > 0)
        scalars.average_share =
            (float)(1 - schedule_average_decay(config->average_decay, config->average_warmup,
                                               scalars.step - scalars.skipped));
    else if (update && optimizer_of(&config->optimizer)->averages_itself)
        scalars.average_share = (float)schedule_share(schedule, scalars.step - scalars.skipped);
    return scalars;
}

/* ---- how many make one launch ---- */

/* A launch of this length hides the cost of launching, and the loop still reacts soon. */
static const double launch_seconds = 0.002;

int loop_launch_batches(const struct loop *loop)
{
    double batch = loop->pace.batch_seconds;

    if (loop->pace.countdown < 1 || (batch > 0 && launch_seconds < batch))
        return 1;
    return batch > 0 && launch_seconds / batch < BACKEND_STEPS_MAX ? (int)(launch_seconds / batch)
                                                                   : BACKEND_STEPS_MAX;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many steps remain until the next step at which something is due every `every` steps. */
static int64_t steps_until(int64_t step, int64_t every)
{
    return every ? every - step % every : INT64_MAX;
}

/* How many batches the next launch has: whole updates of whole batches, so that all work between
 * two steps falls between two launches; otherwise a single batch. */
static int count_batches(const struct loop *loop)
{
    const struct training *training = loop->training;
    const struct training_config *config = &training->config;
    const struct checkpoint_state *state = loop->state;
    int64_t batches = smaller(feed_steps_max(training->train), loop_launch_batches(loop));
    int64_t steps = smaller(batches, loop->pace.countdown) / config->accumulate;

    /* the host asks after each update whether it was left out, and a profile needs single steps */
    if (state->micro_step || (state->loss_scale.scale > 0 && !loop->device_scales) ||
        training->profile)
        return 1;
    steps = smaller(steps, training->total_steps - state->step);
    steps = smaller(steps, steps_until(state->step, config->evaluate_every_steps));
    steps = smaller(steps, steps_until(state->step, config->checkpoint_every_steps));
    return steps < 1 ? 1 : feed_round(steps) * (int)config->accumulate;
}

/* ---- what they are told ---- */

/* Takes the next batch's step, and advances to the batch behind it. */
static struct backend_step take_batch(struct loop *loop, int64_t samples)
{
    const struct training_config *config = &loop->training->config;
    struct checkpoint_state *state = loop->state;
    bool update = state->micro_step + 1 == config->accumulate ||
                  state->position + samples == loop->training->epoch_samples;
    struct backend_step step = {.phases =
                                    update ? PROGRAM_STEP : PROGRAM_FORWARD | PROGRAM_BACKWARD};

    loop->learning_rate = schedule_learning_rate(&config->schedule, &state->plateau,
                                                 state->step + 1 - loop->training->steps_before);
    step.scalars = batch_scalars(loop, samples, update);
    state->batches++;
    state->position += samples;
    state->micro_step = update ? 0 : state->micro_step + 1;
    state->step += update;
    state->momentum_product = step.scalars.momentum_product;
    return step;
}

int loop_run_batches(struct loop *loop, int64_t samples, int *batches, struct error *error)
{
    struct session *session = loop->training->session;
    struct checkpoint_state *state = loop->state;
    struct profile *profile = loop->training->profile;
    double momentum_product = state->momentum_product;
    struct backend_step steps[BACKEND_STEPS_MAX];
    int count = *batches = count_batches(loop);
    bool update, skipped;
    int r;

    for (int k = 0; k < count; k++)
        steps[k] = take_batch(loop, samples);
    if (profile)
        profile_batch_begin(profile, samples);
    r = feed_run(loop->training->train, true, steps, count, error);
    if (profile)
        profile_batch_end(profile);
    if (r < 0)
        return r;
    update = state->micro_step == 0 && !loop->device_scales;
    skipped = update && state->loss_scale.scale > 0 && session_update_skipped(session);
    if (skipped)
        state->momentum_product = momentum_product;
    return update ? loss_scale_update(&state->loss_scale, skipped, error) : 0;
}
