/* loop_step.c: one batch: what its step is told, and where it leaves the run. */
#include "engine/train/loop_internal.h"

/* What the next batch's step is told; `update`: whether it ends with an update. */
static struct step_scalars batch_scalars(const struct loop *loop, int64_t samples, bool update)
{
    const struct training_config *config = &loop->training->config;
    const struct schedule_config *schedule = &config->schedule;
    const struct checkpoint_state *state = loop->state;
    int64_t group_start = state->position - state->micro_step * config->batch;
    int64_t rest = loop->training->data.train.count - group_start;
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
                                   .skipped = state->loss_scale.skipped};

    if (group > rest)
        group = rest; /* the tail of an epoch has an update of its own */
    scalars.gradient_scale = (float)((double)samples / (double)group);
    scalars.cycle_momentum = schedule->cycle_momentum;
    if (schedule->cycle_momentum)
        scalars.momentum = schedule_momentum(schedule, scalars.step);
    if (update && config->optimizer.kind == OPTIMIZER_NADAM)
        scalars.momentum_product *= optimizer_nadam_momentum(
            &config->optimizer,
            schedule->cycle_momentum ? scalars.momentum : config->optimizer.beta1,
            scalars.step - scalars.skipped);
    if (update && config->average_decay > 0)
        scalars.average_decay = (float)schedule_average_decay(
            config->average_decay, config->average_warmup, scalars.step - scalars.skipped);
    return scalars;
}

int loop_batch(struct loop *loop, const struct loader_batch *batch, struct error *error)
{
    const struct training_config *config = &loop->training->config;
    struct checkpoint_state *state = loop->state;
    bool update = state->micro_step + 1 == config->accumulate ||
                  state->position + batch->count == loop->training->data.train.count;
    struct profile *profile = loop->training->profile;
    struct step_scalars scalars;
    bool skipped;
    int r;

    loop->learning_rate =
        schedule_learning_rate(&config->schedule, &state->plateau, state->step + 1);
    scalars = batch_scalars(loop, batch->count, update);
    if (profile)
        profile_batch_begin(profile, batch->count);
    r = session_step(loop->training->session,
                     &(struct session_batch){batch->count, batch->samples, batch->targets},
                     update ? PROGRAM_STEP : PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, error);
    if (profile)
        profile_batch_end(profile);
    if (r < 0)
        return r;
    skipped = update && scalars.loss_scale > 0 && session_update_skipped(loop->training->session);
    state->batches++;
    state->position += batch->count;
    state->micro_step = update ? 0 : state->micro_step + 1;
    state->step += update;
    if (!skipped)
        state->momentum_product = scalars.momentum_product;
    return update ? loss_scale_update(&state->loss_scale, skipped, error) : 0;
}
