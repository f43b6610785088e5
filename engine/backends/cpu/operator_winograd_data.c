/* operator_winograd_data.c: the steps of a convolution by Winograd's algorithm. Its gradient by the
 * data is such a convolution with the weights turned. */
#include "engine/backends/cpu/operator_winograd_internal.h"

#include <errno.h>

/* The number of input channels of the weights themselves. For the gradient by the data they are
 * turned. */
static int64_t weight_inputs(const struct winograd_state *state)
{
    return state->tensors.direction == ONEDNN_BACKWARD_DATA ? state->out_channels : state->channels;
}

static int64_t weight_outputs(const struct winograd_state *state)
{
    return state->tensors.direction == ONEDNN_BACKWARD_DATA ? state->channels : state->out_channels;
}

static void run_weights(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct winograd_state *state = step->state;
    const float *weights = program_address(program, state->tensors.weights);
    int64_t blocks = weight_inputs(state) / program->device->kernels->vector;
    struct range pairs = winograd_weight_pairs(program, state, task);

    (void)thread;
    for (int64_t pair = pairs.first; pair < pairs.end; pair++)
        program->device->kernels->winograd_transform_weights(
            weights, weight_inputs(state), weight_outputs(state), pair % blocks, pair / blocks,
            state->tensors.direction == ONEDNN_BACKWARD_DATA, state->weight_stride,
            winograd_workspace_at(step, state->weight_offset));
}

static void finish_result(struct backend_program *program, const struct step *step, int task,
                          struct range tiles, int64_t rows, int64_t row)
{
    const struct winograd_state *state = step->state;
    struct winograd_tiles place =
        winograd_tiles_of(program, tiles.first, tiles.end - tiles.first, rows, state->out_channels);
    bool forward = state->tensors.direction == ONEDNN_FORWARD;
    const float *bias =
        forward && state->tensors.bias >= 0 ? program_address(program, state->tensors.bias) : NULL;

    program->device->kernels->winograd_finish(
        winograd_images_at(program, step, task, state->result_offset) +
            row * program->device->kernels->vector,
        &state->shape, state->out_channels, &place, bias,
        program->nodes[step->node - program->graph->nodes].fused == ACTIVATION_RELU,
        program_address(program, state->result));
}

static void run_tiles(struct backend_program *program, const struct step *step, int task,
                      int thread)
{
    const struct winograd_state *state = step->state;
    struct range all = winograd_task_tiles(program, state, task), tiles;

    (void)thread;
    for (tiles.first = all.first; tiles.first < all.end; tiles.first = tiles.end) {
        int64_t left = all.end - tiles.first, count = left < state->chunk ? left : state->chunk;
        struct winograd_product product =
            winograd_product_of(program, state, count, winograd_all_frequencies);

        tiles.end = tiles.first + count;
        winograd_transform_source(program, step, task, tiles, count, 0);
        program->device->kernels->winograd_multiply(
            &product, winograd_images_at(program, step, task, state->source_offset),
            winograd_workspace_at(step, state->weight_offset),
            winograd_images_at(program, step, task, state->result_offset));
        finish_result(program, step, task, tiles, count, 0);
    }
}

static void run_source(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    (void)thread;
    winograd_run_on_batch(program, step, task, winograd_transform_source);
}

static void run_products(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct winograd_state *state = step->state;
    struct winograd_product product = winograd_product_of(
        program, state, state->tiles, winograd_share(WINOGRAD_FREQUENCIES, task, step->tasks));

    (void)thread;
    program->device->kernels->winograd_multiply(&product,
                                                winograd_workspace_at(step, state->source_offset),
                                                winograd_workspace_at(step, state->weight_offset),
                                                winograd_workspace_at(step, state->result_offset));
}

static void run_result(struct backend_program *program, const struct step *step, int task,
                       int thread)
{
    (void)thread;
    winograd_run_on_batch(program, step, task, finish_result);
}

int winograd_add_data_steps(struct backend_program *program, int32_t index,
                            const struct winograd_state *state)
{
    const size_t weight_bytes =
        (size_t)(WINOGRAD_FREQUENCIES * state->weight_stride) * sizeof(float);
    struct step *step = winograd_add_plain_step(program, index, run_weights);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    step_touch(step, winograd_workspace_at(step, state->weight_offset), weight_bytes, 1,
               ACCESS_WHOLE, true);
    if (state->divides_frequencies) {
        step = winograd_add_plain_step(program, index, run_source);
        if (!step)
            return -ENOMEM;
        step_touch_tensor(program, step, state->source, ACCESS_SLICE, false);
        step_touch(step, winograd_workspace_at(step, state->source_offset),
                   (size_t)(state->result_offset - state->source_offset) * sizeof(float), 1,
                   ACCESS_WHOLE, true);
        if (!winograd_add_step(program, index, run_products, true))
            return -ENOMEM;
        step = winograd_add_step(program, index, run_result, false);
    } else {
        step = winograd_add_step(program, index, run_tiles, false);
        if (step)
            step_touch_tensor(program, step, state->source, ACCESS_SLICE, false);
    }
    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->result, ACCESS_SLICE, true);
    if (state->tensors.direction == ONEDNN_FORWARD)
        step_touch_tensor(program, step, state->tensors.bias, ACCESS_WHOLE, false);
    return 0;
}
