/* operator_convolution_steps.c: the steps of a convolution that operator_convolution.c has
 * prepared. They compute the slices of the batch, sum up gradients of the weights, and copy between
 * layouts. */
#include "engine/backends/cpu/operator_convolution_internal.h"

#include <errno.h>

/* ---- run ------------------------------------------------------------------------------------- */

/* The task's share of `count` samples or parts. */
static struct range task_share(const struct step *step, int64_t count, int task)
{
    return (struct range){count * task / step->tasks, count * (task + 1) / step->tasks};
}

static void run_reorder(struct backend_program *program, const struct step *step, int task,
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

/* Where the primitive finds sample `first` of x or y. */
static void *primitive_sample(const struct backend_program *program,
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
    float *plain = primitive_sample(program, state, step->workspace, tensor, slice.first);

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

static void run_channels_copies(struct backend_program *program, const struct step *step, int task,
                                int thread)
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

static void run_pack(struct backend_program *program, const struct step *step, int task, int thread)
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

static void run_convolution(struct backend_program *program, const struct step *step, int task,
                            int thread)
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

static void run_sum(struct backend_program *program, const struct step *step, int task, int thread)
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

/* Adds the sum to the gradient, in the gradient's layout. */
static void run_take_copy(struct backend_program *program, const struct step *step, int task,
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

/* ---- bind ------------------------------------------------------------------------------------ */

static int bind_call(struct backend_program *program, struct convolution_state *state, int task,
                     const char *workspace, void *weights, void *bias, struct onednn_call **call,
                     struct error *error)
{
    struct range slice = program_slice(program, task);
    int size = slice.end - slice.first == state->rows[0] ? 0 : 1;
    bool external =
        !program->tensor_bytes[program->root[state->tensors.x]] && !state->copy_x.sample_bytes;
    size_t offset =
        (size_t)(slice.first * program_sample_elements(program, state->tensors.x)) * sizeof(float);
    int result = onednn_convolution_bind(
        program->device->onednn, state->primitive[size],
        external ? NULL
                 : primitive_sample(program, state, workspace, state->tensors.x, slice.first),
        weights, bias, primitive_sample(program, state, workspace, state->tensors.y, slice.first),
        program_task_scratch(program, task), call, error);

    return result || !external ? result : program_add_source_call(program, *call, offset, error);
}

/* Binds the copies of slices of the tensor into the other order, or from it. */
static int bind_copy(struct backend_program *program, const struct convolution_state *state,
                     char *workspace, int32_t tensor, bool from_copy, struct image_copy *copy,
                     struct error *error)
{
    bool external = !program->tensor_bytes[program->root[tensor]];
    int result = 0;

    for (int task = 0; task < program->tasks && copy->sample_bytes && !result; task++) {
        struct range slice = program_slice(program, task);
        int size = slice.end - slice.first == state->rows[0] ? 0 : 1;
        void *copied = primitive_sample(program, state, workspace, tensor, slice.first);
        void *own = external ? NULL : program_sample(program, tensor, slice.first);
        size_t offset =
            (size_t)(slice.first * program_sample_elements(program, tensor)) * sizeof(float);

        result = onednn_reorder_bind(program->device->onednn, copy->reorder[size],
                                     from_copy ? copied : own, from_copy ? own : copied,
                                     &copy->call[task], error);
        if (!result && external)
            result = program_add_source_call(program, copy->call[task], offset, error);
    }
    return result;
}

/* The scratch memory of the thread that runs the unit. */
static void *unit_scratch(const struct backend_program *program, int64_t units, int64_t unit)
{
    int task = 0;

    while (units * (task + 1) / program->parts <= unit)
        task++;
    return program_scratch_of(program, program->parts, task);
}

static int bind_channels(struct backend_program *program, struct convolution_state *state,
                         char *workspace, struct error *error)
{
    struct channels_convolution *channels = state->channels;
    bool gradient = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS;
    bool moves = !program->tensor_bytes[program->root[state->tensors.x]];
    bool biased = state->tensors.bias >= 0;
    char *partial = workspace + state->partial_offset;
    struct channels_memory memory = {
        .workspace = workspace + state->channels_offset,
        .x = program_address(program, state->tensors.x),
        .y = program_address(program, state->tensors.y),
        .weights = gradient         ? partial
                   : state->reorder ? workspace + state->copy_offset
                                    : program_address(program, state->tensors.weights),
        .bias = !biased    ? NULL
                : gradient ? partial + state->weight_bytes
                           : program_address(program, state->tensors.bias)};
    int64_t elements = program_sample_elements(program, state->tensors.x);
    int64_t units = channels_units(channels);
    struct channels_memory direct = memory;
    struct onednn_call *call;
    int result = 0;

    direct.weights = program_address(program, state->tensors.weights);
    direct.bias = biased ? program_address(program, state->tensors.bias) : NULL;
    for (int part = 0; part < channels_count(channels) && !result; part++)
        result = channels_bind_weights(channels, part, &memory, error);
    for (int64_t unit = 0; unit < units && !result; unit++)
        result =
            channels_bind_unit(channels, unit, &memory, unit_scratch(program, units, unit), error);
    for (int64_t unit = 0; state->direct_parts && unit < units && !result; unit++)
        result = channels_bind_direct(channels, unit, &direct, unit_scratch(program, units, unit),
                                      error);
    for (int64_t sample = 0; sample < program->graph->batch && !result; sample++) {
        result = channels_bind_sample(channels, sample, &memory, moves, &call, error);
        if (!result && moves)
            result = program_add_source_call(program, call,
                                             (size_t)(sample * elements) * sizeof(float), error);
    }
    return result;
}

static int bind_calls(struct backend_program *program, struct convolution_state *state,
                      char *workspace, struct error *error)
{
    void *own = program_address(program, state->tensors.weights);
    void *own_bias =
        state->tensors.bias >= 0 ? program_address(program, state->tensors.bias) : NULL;
    void *copy = workspace + state->copy_offset, *sum = workspace + state->sum_offset;
    bool gradient = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS;
    int result = state->channels ? bind_channels(program, state, workspace, error) : 0;

    if (!result)
        result = bind_copy(program, state, workspace, state->tensors.x,
                           state->tensors.direction == ONEDNN_BACKWARD_DATA, &state->copy_x, error);

    if (!result)
        result = bind_copy(program, state, workspace, state->tensors.y,
                           state->tensors.direction == ONEDNN_FORWARD, &state->copy_y, error);
    for (int task = 0; task < program->tasks && state->primitive[0] && !result; task++) {
        char *partial = workspace + state->partial_offset + (size_t)task * state->partial_bytes;
        void *weights = gradient ? partial : state->reorder ? copy : own;
        void *bias = gradient ? partial + state->weight_bytes : own_bias;

        result =
            bind_call(program, state, task, workspace, weights, bias, &state->call[task], error);
    }
    if (!result && gradient && program->tasks == 1 && !state->reorder && state->primitive[0])
        result = bind_call(program, state, 0, workspace, own, own_bias, &state->direct_call, error);
    for (int part = 0; state->reorder && part < TASKS_MAX && !result; part++)
        if (part == 0 || state->part_reorder[part])
            result = onednn_reorder_bind(
                program->device->onednn,
                state->reorder_parts ? state->part_reorder[part] : state->reorder,
                gradient ? sum : own, copy, &state->reorder_call[part], error);
    return result;
}

static void touch_plain(struct backend_program *program, struct step *step, int32_t tensor)
{
    const struct convolution_state *state = step->state;
    const struct image_copy *copy = tensor == state->tensors.x ? &state->copy_x : &state->copy_y;

    if (copy->sample_bytes)
        step_touch(step, primitive_sample(program, state, step->workspace, tensor, 0),
                   copy->sample_bytes, program->graph->batch, ACCESS_SLICE, true);
    else if (convolution_plain_bytes(program, state, tensor))
        step_touch(step, primitive_sample(program, state, step->workspace, tensor, 0),
                   (size_t)program_sample_elements(program, tensor) * sizeof(float),
                   program->graph->batch, ACCESS_SLICE, true);
}

static struct step *add_step(struct backend_program *program, int32_t index,
                             const struct convolution_state *state, step_function *run)
{
    struct step *step = program_add_step(program, index, run);

    if (step && state->divided)
        step_divide(program, step);
    return step;
}

/* Adds the step that copies the images which all parts read, and the weights of each part. */
static int add_channels_step(struct backend_program *program, int32_t index,
                             const struct convolution_state *state)
{
    char *workspace = program->node_address[index] + state->channels_offset;
    size_t bytes = channels_workspace_bytes(state->channels);
    bool backward = state->tensors.direction == ONEDNN_BACKWARD_DATA;
    struct step *step = add_step(program, index, state, run_channels_copies);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, backward ? state->tensors.y : state->tensors.x, ACCESS_SLICE,
                      false);
    step_touch(step, workspace, bytes, 1, ACCESS_WHOLE, true);
    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS)
        return 0;
    if (state->reorder)
        step_touch(step, program->node_address[index] + state->copy_offset, state->weight_bytes, 1,
                   ACCESS_WHOLE, false);
    else
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    return 0;
}

/* Bytes of what a step packs before the slices run; 0: there is no such step. */
static size_t packed_bytes(const struct convolution_state *state)
{
    return state->planes     ? planes_packed_bytes(state->planes)
           : state->unfolded ? unfolded_packed_bytes(state->unfolded)
                             : 0;
}

/* Adds the step that packs the weights, or their copy, before the slices run; for the gradient by
 * the weights y's gradient. */
static int add_pack_step(struct backend_program *program, int32_t index,
                         const struct convolution_state *state)
{
    char *workspace = program->node_address[index];
    struct step *step = add_step(program, index, state, run_pack);

    if (!step)
        return -ENOMEM;
    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS)
        step_touch_tensor(program, step, state->tensors.y, ACCESS_WHOLE, false);
    else if (state->reorder)
        step_touch(step, workspace + state->copy_offset, state->weight_bytes, 1, ACCESS_WHOLE,
                   false);
    else
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    step_touch(step, workspace + state->packed_offset, packed_bytes(state), 1, ACCESS_WHOLE, true);
    return 0;
}

/* Adds the step of the slices, behind those that pack operands or copy channels for it, with what
 * all directions read and write there: x and y. NULL: no memory. */
static struct step *add_slices_step(struct backend_program *program, int32_t index,
                                    struct convolution_state *state)
{
    char *workspace = program->node_address[index];
    enum onednn_direction direction = state->tensors.direction;
    struct step *step;

    if (packed_bytes(state) && add_pack_step(program, index, state))
        return NULL;
    if (state->channels && add_channels_step(program, index, state))
        return NULL;
    step = add_step(program, index, state, run_convolution);
    if (!step)
        return NULL;
    if (packed_bytes(state))
        step_touch(step, workspace + state->packed_offset, packed_bytes(state), 1, ACCESS_WHOLE,
                   false);
    if (state->channels)
        step_touch(step, workspace + state->channels_offset,
                   channels_workspace_bytes(state->channels), 1, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->tensors.x, ACCESS_SLICE,
                      direction == ONEDNN_BACKWARD_DATA);
    step_touch_tensor(program, step, state->tensors.y, ACCESS_SLICE, direction == ONEDNN_FORWARD);
    touch_plain(program, step, state->tensors.x);
    touch_plain(program, step, state->tensors.y);
    return step;
}

/* Adds the steps of forward and backward data: [copy the weights], [pack them], then the slices. */
static int add_data_steps(struct backend_program *program, int32_t index,
                          struct convolution_state *state)
{
    char *workspace = program->node_address[index];
    struct step *step;

    if (state->reorder) {
        step = program_add_step(program, index, run_reorder);
        if (!step)
            return -ENOMEM;
        step_divide(program, step);
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
        step_touch(step, workspace + state->copy_offset, state->weight_bytes, 1, ACCESS_WHOLE,
                   true);
    }
    step = add_slices_step(program, index, state);
    if (!step)
        return -ENOMEM;
    if (state->reorder)
        step_touch(step, workspace + state->copy_offset, state->weight_bytes, 1, ACCESS_WHOLE,
                   false);
    else
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_WHOLE, false);
    return 0;
}

/* Adds the steps of backward weights: the slices, their sum, and a copy if the layouts differ. */
static int add_weight_steps(struct backend_program *program, int32_t index,
                            struct convolution_state *state)
{
    char *workspace = program->node_address[index];
    int64_t sum_count = (int64_t)(state->weight_bytes / sizeof(float));
    struct step *step;

    step = add_slices_step(program, index, state);
    if (!step)
        return -ENOMEM;
    step_touch(step, workspace + state->partial_offset, state->partial_bytes, state->partials,
               state->partials > 1 ? ACCESS_TASK : ACCESS_WHOLE, true);
    if (state->direct_parts) {
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, true);
        step_touch_tensor(program, step, state->tensors.bias, ACCESS_WHOLE, true);
    }
    step = add_step(program, index, state, run_sum);
    if (!step)
        return -ENOMEM;
    step_touch(step, workspace + state->partial_offset, state->partial_bytes, state->partials,
               ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_PART, true);
    if (!state->reorder) {
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_PART, true);
        return 0;
    }
    step_touch(step, workspace + state->sum_offset, sizeof(float), sum_count, ACCESS_PART, true);
    step = program_add_step(program, index, run_reorder);
    if (!step)
        return -ENOMEM;
    step_divide(program, step);
    step_touch(step, workspace + state->sum_offset, state->weight_bytes, 1, ACCESS_WHOLE, false);
    step_touch(step, workspace + state->copy_offset, state->sum_offset - state->copy_offset, 1,
               ACCESS_WHOLE, true);
    step = add_step(program, index, state, run_take_copy);
    if (!step)
        return -ENOMEM;
    step_touch(step, workspace + state->copy_offset, state->sum_offset - state->copy_offset, 1,
               ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->tensors.weights, ACCESS_PART, true);
    return 0;
}

int convolution_bind(struct backend_program *program, int32_t index, struct error *error)
{
    struct convolution_state *state = program->nodes[index].state;
    int result = bind_calls(program, state, program->node_address[index], error);

    if (result)
        return result;
    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS)
        result = add_weight_steps(program, index, state);
    else
        result = add_data_steps(program, index, state);
    return result ? error_set(error, result, "no memory for the program") : 0;
}
