/* operator_convolution_run.c: runs the steps of a convolution (operator_convolution_steps.c). They
 * compute the slices of the batch, sum up gradients of the weights, and copy between layouts. */
#include "engine/backends/cpu/operator_convolution_internal.h"

/* The task's share of `count` samples or parts. */
static struct range task_share(const struct step *step, int64_t count, int task)
{
    return (struct range){count * task / step->tasks, count * (task + 1) / step->tasks};
}

void convolution_run_reorder(struct backend_program *program, const struct step *step, int task,
                             int thread)
{
    const struct convolution_state *state = step->state;
    struct range share = task_share(step, state->reorder_parts ? state->reorder_parts : 1, task);

    for (int64_t part = share.first; part < share.end; part++)
        program_record(program, onednn_call_run(state->reorder_call[part], thread));
}

static bool writes_gradient_itself(const struct backend_program *program, const struct step *step)
{
    const struct convolution_state *state = step->state;

    return (state->direct_call || state->direct_parts) && !program->scalars.accumulate &&
           !step->node->adds;
}

void *convolution_primitive_sample(const struct backend_program *program,
                                   const struct convolution_state *state, const char *workspace,
                                   int32_t tensor, int64_t first)
{
    size_t offset = tensor == state->tensors.x ? state->plain_x_offset : state->plain_y_offset;

    const struct image_copy *copy = tensor == state->tensors.x ? &state->copy_x : &state->copy_y;

    if (copy->sample_bytes)
        return (char *)workspace + copy->offset + (size_t)first * copy->sample_bytes;
    if (!convolution_plain_bytes(program, state, tensor))
        return program_sample(program, tensor, first);
    return (char *)workspace + offset +
           (size_t)(first * program_sample_elements(program, tensor)) * sizeof(float);
}

/* Copies the task's slice between the tensor and its copy in another order, if there is one. */
static void run_copy(struct backend_program *program, const struct image_copy *copy, int task,
                     int thread)
{
    if (copy->call[task])
        program_record(program, onednn_call_run(copy->call[task], thread));
}

/* Copies the task's slice of x or y between blocks and NCHW, if the primitive needs that. */
static void convert_slice(struct backend_program *program, const struct step *step, int task,
                          int32_t tensor, bool to_plain)
{
    const struct convolution_state *state = step->state;
    struct range slice = program_slice(program, task);
    struct image_layout layout = program_image_layout(program, tensor, slice.end - slice.first);
    float *blocks = program_sample(program, tensor, slice.first);
    float *plain =
        convolution_primitive_sample(program, state, step->workspace, tensor, slice.first);

    if (plain == blocks || state->copies)
        return;
    if (to_plain)
        program->device->kernels->blocks_to_plain(blocks, plain, &layout);
    else
        program->device->kernels->plain_to_blocks(plain, blocks, &layout);
}

/* The weights in the layout of `state`: the parameter or its copy. */
static const float *laid_out_weights(const struct backend_program *program, const struct step *step)
{
    const struct convolution_state *state = step->state;

    return state->reorder ? (const float *)(const void *)(step->workspace + state->copy_offset)
                          : program_address(program, state->tensors.weights);
}

static void run_own_kernel(struct backend_program *program, const struct step *step, int task)
{
    const struct convolution_state *state = step->state;
    const struct conv_attributes *a = &step->node->attributes.conv;
    const int64_t *x = program_tensor(program, state->tensors.x)->shape.extent;
    const int64_t *y = program_tensor(program, state->tensors.y)->shape.extent;
    struct range slice = program_slice(program, task);
    struct image_layout layout =
        program_image_layout(program, state->tensors.x, slice.end - slice.first);
    struct pool_shape shape = {.height = x[2],
                               .width = x[3],
                               .out_height = y[2],
                               .out_width = y[3],
                               .kernel = {a->kernel[0], a->kernel[1]},
                               .stride = {a->stride[0], a->stride[1]},
                               .padding = {a->padding[0], a->padding[1]}};
    char *partial = step->workspace + state->partial_offset + (size_t)task * state->partial_bytes;
    const struct kernels *kernels = program->device->kernels;
    bool bias = state->tensors.bias >= 0;
    const float *weights = laid_out_weights(program, step);
    float *images = program_sample(program, state->tensors.x, slice.first);
    float *results = program_sample(program, state->tensors.y, slice.first);

    if (state->tensors.direction == ONEDNN_FORWARD)
        kernels->depthwise_forward(
            images, weights, bias ? program_address(program, state->tensors.bias) : NULL,
            program->nodes[step->node - program->graph->nodes].fused == ACTIVATION_RELU, &shape,
            &layout, results);
    else if (state->tensors.direction == ONEDNN_BACKWARD_DATA)
        kernels->depthwise_backward_data(results, weights, &shape, &layout, images);
    else
        kernels->depthwise_backward_weights(
            images, results, &shape, &layout, (float *)(void *)partial,
            bias ? (float *)(void *)(partial + state->weight_bytes) : NULL);
}

static void run_channels(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct convolution_state *state = step->state;
    struct range share = task_share(step, channels_units(state->channels), task);

    for (int64_t unit = share.first; unit < share.end; unit++)
        program_record(program, channels_run(state->channels, unit,
                                             writes_gradient_itself(program, step), thread));
}

void convolution_run_channels_copies(struct backend_program *program, const struct step *step,
                                     int task, int thread)
{
    const struct convolution_state *state = step->state;
    struct range samples = task_share(step, program->graph->batch, task);
    struct range parts = task_share(step, channels_count(state->channels), task);

    for (int64_t sample = samples.first; sample < samples.end; sample++)
        program_record(program, channels_copy(state->channels, sample, thread));
    for (int64_t part = parts.first; part < parts.end; part++)
        program_record(program, channels_pack(state->channels, (int)part, thread));
}

static struct planes_images slice_images(const struct backend_program *program, int32_t tensor,
                                         int64_t first)
{
    return (struct planes_images){.start = program_sample(program, tensor, first),
                                  .block = program_image_layout(program, tensor, 1).block};
}

void convolution_run_pack(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct convolution_state *state = step->state;
    const struct planes_images y = slice_images(program, state->tensors.y, 0);
    float *packed = (float *)(void *)(step->workspace + state->packed_offset);

    (void)thread;
    if (state->unfolded)
        unfolded_pack(state->unfolded, laid_out_weights(program, step), &y, task, step->tasks,
                      packed);
    else
        planes_pack(state->planes, laid_out_weights(program, step), task, step->tasks, packed);
}

/* The gradient by the weights is written where it belongs, or to be added by the next step. */
static void run_unfolded(struct backend_program *program, const struct step *step, int task)
{
    const struct convolution_state *state = step->state;
    struct planes_images x = slice_images(program, state->tensors.x, 0);
    struct planes_images y = slice_images(program, state->tensors.y, 0);
    const float *packed = (const float *)(const void *)(step->workspace + state->packed_offset);
    char *partial = step->workspace + state->partial_offset;
    float *weights = (float *)laid_out_weights(program, step);
    float *bias = state->tensors.bias >= 0 ? program_address(program, state->tensors.bias) : NULL;

    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS &&
        !writes_gradient_itself(program, step)) {
        weights = (float *)(void *)partial;
        bias = bias ? (float *)(void *)(partial + state->weight_bytes) : NULL;
    }
    unfolded_run_part(state->unfolded, &x, &y, task, weights, bias, packed,
                      program_scratch_of(program, step->tasks, task));
}

static void run_planes(struct backend_program *program, const struct step *step, int task)
{
    const struct convolution_state *state = step->state;
    struct range slice =
        state->divided ? (struct range){0, program->graph->batch} : program_slice(program, task);
    struct planes_images x = slice_images(program, state->tensors.x, slice.first);
    struct planes_images y = slice_images(program, state->tensors.y, slice.first);
    char *partial = step->workspace + state->partial_offset +
                    (state->partials > 1 ? (size_t)task * state->partial_bytes : 0);
    float *weights = (float *)(void *)(step->workspace + state->packed_offset);
    float *bias = state->tensors.bias >= 0 ? program_address(program, state->tensors.bias) : NULL;

    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS) {
        weights = (float *)(void *)partial;
        bias = bias ? (float *)(void *)(partial + state->weight_bytes) : NULL;
    }
    if (state->divided)
        planes_run_part(state->planes, &x, &y, task, weights, bias,
                        program_scratch_of(program, step->tasks, task));
    else
        planes_run(state->planes, &x, &y, slice.end - slice.first, weights, bias,
                   program_task_scratch(program, task));
}

void convolution_run(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct convolution_state *state = step->state;

    if (state->channels) {
        run_channels(program, step, task, thread);
        return;
    }
    if (state->planes) {
        run_planes(program, step, task);
        return;
    }
    if (state->unfolded) {
        run_unfolded(program, step, task);
        return;
    }

    if (state->own_kernel) {
        run_own_kernel(program, step, task);
        return;
    }
    if (state->tensors.direction != ONEDNN_BACKWARD_DATA) {
        convert_slice(program, step, task, state->tensors.x, true);
        run_copy(program, &state->copy_x, task, thread);
    }
    if (state->tensors.direction != ONEDNN_FORWARD) {
        convert_slice(program, step, task, state->tensors.y, true);
        run_copy(program, &state->copy_y, task, thread);
    }
    if (writes_gradient_itself(program, step))
        program_record(program, onednn_call_run(state->direct_call, thread));
    else
        program_record(program, onednn_call_run(state->call[task], thread));
    if (state->tensors.direction == ONEDNN_FORWARD) {
        convert_slice(program, step, task, state->tensors.y, false);
        run_copy(program, &state->copy_y, task, thread);
    } else if (state->tensors.direction == ONEDNN_BACKWARD_DATA) {
        convert_slice(program, step, task, state->tensors.x, false);
        run_copy(program, &state->copy_x, task, thread);
    }
}

/* Sums up part `task` of `count` elements over the tasks' partial sums, which begin at `offset` in
 * each. */
static void sum_partials(struct backend_program *program, const struct step *step, int task,
                         size_t offset, int64_t count, float *result, bool accumulate)
{
    const struct convolution_state *state = step->state;
    struct range part = program_part_of(count, step->tasks, task);

    if (part.first < part.end)
        program->device->kernels->partials_sum(
            (const float *)(void *)(step->workspace + state->partial_offset + offset) + part.first,
            state->partials, (int64_t)(state->partial_bytes / sizeof(float)), result + part.first,
            part.end - part.first, accumulate);
}

void convolution_run_sum(struct backend_program *program, const struct step *step, int task,
                         int thread)
{
    const struct convolution_state *state = step->state;
    int64_t count = (int64_t)(onednn_layout_bytes(&state->layout) / sizeof(float));

    (void)thread;
    if (writes_gradient_itself(program, step))
        return;
    if (state->reorder)
        sum_partials(program, step, task, 0, count,
                     (float *)(void *)(step->workspace + state->sum_offset), false);
    else
        sum_partials(program, step, task, 0, count,
                     program_address(program, state->tensors.weights),
                     program_adds_to(program, step->node, state->tensors.weights));
    if (state->tensors.bias >= 0)
        sum_partials(program, step, task, state->weight_bytes,
                     program_tensor(program, state->tensors.bias)->shape.extent[0],
                     program_address(program, state->tensors.bias),
                     program_adds_to(program, step->node, state->tensors.bias));
}

void convolution_run_take_copy(struct backend_program *program, const struct step *step, int task,
                               int thread)
{
    const struct convolution_state *state = step->state;
    int64_t rows, width;
    struct range part;

    (void)thread;
    program_parameter_rows(program, state->tensors.weights, &rows, &width);
    part = program_part_of(rows, step->tasks, task);
    if (part.first < part.end)
        program->device->kernels->partials_sum(
            (const float *)(void *)(step->workspace + state->copy_offset) + part.first, 1, 0,
            (float *)program_address(program, state->tensors.weights) + part.first,
            part.end - part.first, program_adds_to(program, step->node, state->tensors.weights));
}
