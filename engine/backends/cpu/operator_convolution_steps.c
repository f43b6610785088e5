/* operator_convolution_steps.c: the steps of a convolution that operator_convolution.c has
 * prepared: which there are, what memory they touch, and the calls of oneDNN that they make.
 * operator_convolution_run.c runs them. */
#include "engine/backends/cpu/operator_convolution_internal.h"

#include <errno.h>

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
                 : convolution_primitive_sample(program, state, workspace, state->tensors.x,
                                                slice.first),
        weights, bias,
        convolution_primitive_sample(program, state, workspace, state->tensors.y, slice.first),
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
        void *copied = convolution_primitive_sample(program, state, workspace, tensor, slice.first);
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
        step_touch(step, convolution_primitive_sample(program, state, step->workspace, tensor, 0),
                   copy->sample_bytes, program->graph->batch, ACCESS_SLICE, true);
    else if (convolution_plain_bytes(program, state, tensor))
        step_touch(step, convolution_primitive_sample(program, state, step->workspace, tensor, 0),
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
    struct step *step = add_step(program, index, state, convolution_run_channels_copies);

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
    struct step *step = add_step(program, index, state, convolution_run_pack);

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
    step = add_step(program, index, state, convolution_run);
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
        step = program_add_step(program, index, convolution_run_reorder);
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
    step = add_step(program, index, state, convolution_run_sum);
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
    step = program_add_step(program, index, convolution_run_reorder);
    if (!step)
        return -ENOMEM;
    step_divide(program, step);
    step_touch(step, workspace + state->sum_offset, state->weight_bytes, 1, ACCESS_WHOLE, false);
    step_touch(step, workspace + state->copy_offset, state->sum_offset - state->copy_offset, 1,
               ACCESS_WHOLE, true);
    step = add_step(program, index, state, convolution_run_take_copy);
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
