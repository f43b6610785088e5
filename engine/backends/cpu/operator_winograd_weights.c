/* operator_winograd_weights.c: the steps of the gradient by the weights, by
 * Winograd's algorithm. */
#include "engine/backends/cpu/operator_winograd_internal.h"

#include <errno.h>

static void finish_weights(struct backend_program *program, const struct winograd_state *state,
                           struct range pairs, const float *transformed, bool accumulate,
                           float *gradient)
{
    int64_t blocks = state->channels / program->device->kernels->vector;

    for (int64_t pair = pairs.first; pair < pairs.end; pair++)
        program->device->kernels->winograd_finish_weights(
            transformed, state->channels, pair % blocks, pair / blocks, state->weight_stride,
            accumulate, gradient);
}

static void transform_both(struct backend_program *program, const struct step *step, int task,
                           struct range tiles, int64_t rows, int64_t row)
{
    const struct winograd_state *state = step->state;
    struct winograd_tiles place =
        winograd_tiles_of(program, tiles.first, tiles.end - tiles.first, rows, state->out_channels);

    winograd_transform_source(program, step, task, tiles, rows, row);
    program->device->kernels->winograd_transform_gradient(
        program_address(program, state->result), &state->shape, state->out_channels, &place,
        winograd_images_at(program, step, task, state->result_offset) +
            row * program->device->kernels->vector);
}

static float *partial_at(const struct step *step, int task)
{
    const struct winograd_state *state = step->state;

    return winograd_workspace_at(step, state->partial_offset + task * state->partial_stride);
}

/* The offset of the task's part of the bias' gradient in its partial sums. */
static int64_t bias_offset(const struct winograd_state *state)
{
    return state->divides_frequencies || state->tasks == 1
               ? 0
               : state->channels * state->out_channels * 9;
}

static void sum_bias(struct backend_program *program, const struct step *step, int task)
{
    const struct winograd_state *state = step->state;
    struct range slice = winograd_task_samples(program, state, task);
    struct image_layout layout =
        program_image_layout(program, state->result, slice.end - slice.first);

    if (state->tensors.bias >= 0)
        program->device->kernels->channel_sum(program_sample(program, state->result, slice.first),
                                              &layout, partial_at(step, task) + bias_offset(state));
}

static void run_gradient_tiles(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct winograd_state *state = step->state;
    struct range all = winograd_task_tiles(program, state, task), tiles;
    float *transformed = winograd_images_at(program, step, task, state->weight_offset);
    int64_t vector = program->device->kernels->vector;
    struct range pairs = {0, state->channels / vector * (state->out_channels / vector)};

    (void)thread;
    sum_bias(program, step, task);
    for (tiles.first = all.first; tiles.first < all.end; tiles.first = tiles.end) {
        int64_t left = all.end - tiles.first, count = left < state->chunk ? left : state->chunk;
        struct winograd_product product =
            winograd_product_of(program, state, count, winograd_all_frequencies);

        tiles.end = tiles.first + count;
        transform_both(program, step, task, tiles, count, 0);
        program->device->kernels->winograd_multiply_transposed(
            &product, winograd_images_at(program, step, task, state->source_offset),
            winograd_images_at(program, step, task, state->result_offset), tiles.first > all.first,
            transformed);
    }
    if (state->tasks == 1)
        finish_weights(program, state, pairs, transformed,
                       program_adds_to(program, step->node, state->tensors.weights),
                       program_address(program, state->tensors.weights));
    else
        finish_weights(program, state, pairs, transformed, false, partial_at(step, task));
}

static void run_both(struct backend_program *program, const struct step *step, int task, int thread)
{
    (void)thread;
    sum_bias(program, step, task);
    winograd_run_on_batch(program, step, task, transform_both);
}

static void run_gradient_products(struct backend_program *program, const struct step *step,
                                  int task, int thread)
{
    const struct winograd_state *state = step->state;
    struct winograd_product product = winograd_product_of(
        program, state, state->tiles, winograd_share(WINOGRAD_FREQUENCIES, task, step->tasks));

    (void)thread;
    program->device->kernels->winograd_multiply_transposed(
        &product, winograd_workspace_at(step, state->source_offset),
        winograd_workspace_at(step, state->result_offset), false,
        winograd_workspace_at(step, state->weight_offset));
}

static void run_gradient_result(struct backend_program *program, const struct step *step, int task,
                                int thread)
{
    const struct winograd_state *state = step->state;

    (void)thread;
    finish_weights(program, state, winograd_weight_pairs(program, state, task),
                   winograd_workspace_at(step, state->weight_offset),
                   program_adds_to(program, step->node, state->tensors.weights),
                   program_address(program, state->tensors.weights));
}

/* Adds up the tasks' partial sums at `offset`, part by part. */
static void sum_partials(struct backend_program *program, const struct step *step, int task,
                         int64_t offset, int64_t count, int32_t gradient)
{
    const struct winograd_state *state = step->state;
    struct range part = program_part_of(count, step->tasks, task);

    if (part.first < part.end)
        program->device->kernels->partials_sum(
            partial_at(step, 0) + offset + part.first, state->tasks, state->partial_stride,
            (float *)program_address(program, gradient) + part.first, part.end - part.first,
            program_adds_to(program, step->node, gradient));
}

static void run_sum(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct winograd_state *state = step->state;

    (void)thread;
    if (!state->divides_frequencies && state->tasks > 1)
        sum_partials(program, step, task, 0, state->channels * state->out_channels * 9,
                     state->tensors.weights);
    if (state->tensors.bias >= 0)
        sum_partials(program, step, task, bias_offset(state), state->out_channels,
                     state->tensors.bias);
}

int winograd_add_gradient_steps(struct backend_program *program, int32_t index,
                                const struct winograd_state *state)
{
    struct step *step = winograd_add_step(
        program, index, state->divides_frequencies ? run_both : run_gradient_tiles, true);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->source, ACCESS_SLICE, false);
    step_touch_tensor(program, step, state->result, ACCESS_SLICE, false);
    if (state->divides_frequencies) {
        if (!winograd_add_step(program, index, run_gradient_products, true))
            return -ENOMEM;
        step = winograd_add_step(program, index, run_gradient_result, false);
        if (!step)
            return -ENOMEM;
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, true);
    } else if (state->tasks == 1) {
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, true);
    }
    if (!state->partial_stride)
        return 0;
    step = winograd_add_step(program, index, run_sum, false);
    if (!step)
        return -ENOMEM;
    if (!state->divides_frequencies && state->tasks > 1)
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_PART, true);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_PART, true);
    return 0;
}
