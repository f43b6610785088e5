/* training_resume.c: a run goes on from a checkpoint: training_resume() of training.h. */
#include "engine/train/training_internal.h"

#include <errno.h>
#include <string.h>

/* Takes over the state of a tracker, unless the specification now watches another metric. */
static void resume_tracker(struct tracker *tracker, const struct tracker *stored)
{
    if (strcmp(tracker->metric, stored->metric) != 0)
        return;
    tracker->best = stored->best;
    tracker->best_step = stored->best_step;
    tracker->best_epoch = stored->best_epoch;
    tracker->measurements_without_improvement = stored->measurements_without_improvement;
}

/* The same for the plateau schedule. */
static void resume_plateau(struct plateau *plateau, const struct plateau *stored)
{
    if (strcmp(plateau->metric, stored->metric) == 0 && stored->learning_rate > 0)
        *plateau = *stored;
}

/* How many batches of this run make one batch of the checkpoint's run. It is more than 1 if smaller
 * batches are accumulated to the same update. */
static int64_t batches_of_one(const struct training_config *config,
                              const struct checkpoint_state *stored)
{
    int64_t parts = stored->batch / config->batch;

    return stored->batch > 0 && stored->batch % config->batch == 0 &&
                   config->accumulate == stored->accumulate * parts
               ? parts
               : 1;
}

/* Epochs are counted in steps. Where the data have grown, or updates have another size, those that
 * are done took another number of them: the run ends as many steps later, after its last epoch. One
 * of train.max_steps ends at its step. */
static void count_steps(struct training *training, const struct checkpoint_state *stored)
{
    const struct training_config *config = &training->config;
    bool whole = stored->position == training->epoch_samples;
    int64_t updates =
        whole ? training->steps_per_epoch : stored->position / config->batch / config->accumulate;

    if (config->steps && training->total_steps == config->steps)
        return;
    training->steps_before = stored->step - stored->epoch * training->steps_per_epoch - updates;
    training->total_steps += training->steps_before;
    if (config->steps && training->total_steps > config->steps)
        training->total_steps = config->steps;
}

int training_resume(struct training *training, const struct checkpoint *checkpoint,
                    struct error *error)
{
    const struct checkpoint_state *stored = &checkpoint->state;
    struct checkpoint_state *state = &training->state;
    const struct training_config *config = &training->config;
    int64_t count = training->epoch_samples;
    bool same_metric = strcmp(state->early.metric, stored->early.metric) == 0;
    int64_t parts = batches_of_one(config, stored), micro_step = stored->micro_step * parts;
    int r;

    if (stored->position > count ||
        (stored->position % config->batch && stored->position != count) ||
        micro_step >= config->accumulate ||
        micro_step > (stored->position + config->batch - 1) / config->batch)
        return error_set(error, -EINVAL,
                         "the checkpoint was written after %lld samples of an epoch, which no "
                         "batch of this run ends at (batch size %lld, %lld samples): resume with "
                         "the batch size, accumulation and data that it was trained with",
                         (long long)stored->position, (long long)config->batch, (long long)count);
    if (training->data.train.dataset->streams && stored->batch != config->batch)
        return error_set(error, -EINVAL,
                         "the checkpoint has the state of %lld streams of text, but a batch of "
                         "this run has %lld: with model.carry_state a run goes on with the batch "
                         "size that it began with",
                         (long long)stored->batch, (long long)config->batch);
    if (stored->seed != config->seed)
        return error_set(error, -EINVAL,
                         "the checkpoint was trained with seed %llu, not %llu: resume with the "
                         "same seed",
                         (unsigned long long)stored->seed, (unsigned long long)config->seed);
    r = checkpoint_restore(
        checkpoint, training->session, true,
        training->best_weights.values && same_metric ? &training->best_weights : NULL, error);
    if (r < 0)
        return r;
    resume_tracker(&state->best, &stored->best);
    resume_tracker(&state->early, &stored->early);
    resume_plateau(&state->plateau, &stored->plateau);
    count_steps(training, stored);
    state->step = stored->step;
    state->measured_step = stored->measured_step;
    state->micro_step = micro_step;
    state->epoch = stored->epoch;
    state->position = stored->position;
    state->batches = stored->batches * parts;
    state->loss_scale = stored->loss_scale;
    loss_scale_begin(&state->loss_scale, config->compute_type == TENSOR_FLOAT16);
    state->momentum_product = stored->momentum_product;
    state->seconds = stored->seconds;
    state->epoch_seconds = stored->epoch_seconds;
    state->sums = stored->sums;
    state->losses = stored->losses;
    session_restore_metrics(training->session, &state->sums, &state->losses);
    return 0;
}
