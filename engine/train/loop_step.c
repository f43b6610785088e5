/* loop_step.c: one batch: what its step is told, and where it leaves the run. */
#include "engine/train/loop_internal.h"

int loop_batch(struct loop *loop, const struct loader_batch *batch, struct error *error)
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
                                   .clip_norm = (float)config->clip_norm,
                                   .clip_value = (float)config->clip_value,
                                   .momentum_product = state->momentum_product};
    int r;

    if (group > count - group_start)
        group = count - group_start; /* the tail of an epoch has an update of its own */
    loop->learning_rate = schedule_learning_rate(&config->schedule, scalars.step);
    scalars.learning_rate = (float)loop->learning_rate;
    scalars.gradient_scale = (float)((double)batch->count / (double)group);
    if (config->optimizer.kind == OPTIMIZER_NADAM)
        scalars.momentum_product *=
            optimizer_nadam_momentum(&config->optimizer, config->optimizer.beta1, scalars.step);
    r = session_step(loop->training->session,
                     &(struct session_batch){batch->count, batch->samples, batch->targets},
                     update ? PROGRAM_STEP : PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars, error);
    if (r < 0)
        return r;
    state->batches++;
    state->position += batch->count;
    state->micro_step = update ? 0 : state->micro_step + 1;
    state->step += update;
    if (update)
        state->momentum_product = scalars.momentum_product;
    return 0;
}
