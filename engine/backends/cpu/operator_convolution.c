/* operator_convolution.c: convolutions through oneDNN, one call per slice of the batch.
 *
 * A parameter lies as the gradient of its weights comes out of oneDNN, so that the update needs no
 * copy; the forward and backward-data primitives that want another layout get a copy of the weights
 * made at the beginning of their step. The slices' gradients of the weights are partial sums, added
 * in pairs. Where oneDNN has nothing but its reference for images in blocks (one channel in, or a
 * number that does not fill blocks), it works on copies in NCHW; but where that is the gradient of
 * depthwise weights, a kernel of ours makes it, and channels last all that is depthwise
 * (kernels/depthwise.c). */
#include "engine/backends/cpu/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct convolution_state {
    struct convolution_tensors tensors;
    int64_t rows[2]; /* samples of a slice: two sizes that differ by one, or one */
    struct onednn_convolution *primitive[2];
    bool plain;                     /* the primitives see NCHW */
    bool own_kernel;                /* kernels/depthwise.c instead of primitives */
    struct onednn_layout layout;    /* of the weights, as the primitives want or make them */
    struct onednn_reorder *reorder; /* between that and the parameter's; NULL: they are equal */

    size_t weight_bytes; /* in `layout` */
    size_t copy_offset, sum_offset, partial_offset, partial_bytes;
    size_t plain_x_offset, plain_y_offset; /* whole batches in NCHW, where the tensor has blocks */

    struct onednn_call *reorder_call;
    struct onednn_call *call[TASKS_MAX];
    struct onednn_call *direct_call; /* one task: writes the gradient itself */
};

static size_t align_up(size_t bytes)
{
    return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

/* ---- prepare ----------------------------------------------------------------------------------
 */

struct convolution_tensors convolution_tensors(const struct graph_node *node)
{
    const int32_t *in = node->input, *out = node->output;

    switch (node->op) {
    case OP_CONV2D:
        return (struct convolution_tensors){.direction = ONEDNN_FORWARD,
                                            .x = in[0],
                                            .weights = in[1],
                                            .bias = node->input_count > 2 ? in[2] : -1,
                                            .y = out[0]};
    case OP_CONV2D_BACKWARD_DATA:
        return (struct convolution_tensors){.direction = ONEDNN_BACKWARD_DATA,
                                            .x = out[0],
                                            .weights = in[1],
                                            .bias = -1,
                                            .y = in[0]};
    default:
        return (struct convolution_tensors){.direction = ONEDNN_BACKWARD_WEIGHTS,
                                            .x = in[0],
                                            .weights = out[0],
                                            .bias = node->output_count > 1 ? out[1] : -1,
                                            .y = in[1]};
    }
}

/* How the images lie for the primitive. */
static enum onednn_images image_order(const struct backend_program *program,
                                      const struct convolution_state *state, int32_t tensor)
{
    int64_t block = program_image_layout(program, tensor, 1).block;

    if (state->plain)
        return ONEDNN_NCHW;
    if (program->channels_last)
        return ONEDNN_NHWC;
    return block == 16 ? ONEDNN_NCHW16C : block == 8 ? ONEDNN_NCHW8C : ONEDNN_NCHW;
}

static struct onednn_convolution_shape describe_shape(const struct backend_program *program,
                                                      const struct graph_node *node,
                                                      const struct convolution_state *state,
                                                      int64_t samples)
{
    const struct conv_attributes *a = &node->attributes.conv;
    const int64_t *x = program_tensor(program, state->tensors.x)->shape.extent;
    const int64_t *y = program_tensor(program, state->tensors.y)->shape.extent;
    struct onednn_convolution_shape shape = {
        .samples = samples,
        .channels = x[1],
        .height = x[2],
        .width = x[3],
        .out_channels = y[1],
        .out_height = y[2],
        .out_width = y[3],
        .groups = a->groups,
        .order_x = image_order(program, state, state->tensors.x),
        .order_y = image_order(program, state, state->tensors.y),
        .bias = state->tensors.bias >= 0,
        .relu = program->nodes[node - program->graph->nodes].fused == ACTIVATION_RELU,
        .bfloat16 = program->compact[node->input[0]],
    };

    for (int d = 0; d < 2; d++) {
        shape.kernel[d] = a->kernel[d];
        shape.stride[d] = a->stride[d];
        shape.padding[d] = a->padding[d];
        shape.dilation[d] = a->dilation[d];
    }
    return shape;
}

bool convolution_takes_bfloat16(struct backend_program *program, int32_t index)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct convolution_state state = {0};
    struct onednn_convolution_shape shape;

    state.tensors = convolution_tensors(node);
    shape = describe_shape(program, node, &state, program->graph->batch / program->tasks);
    shape.bfloat16 = true;
    return onednn_convolution_exists(program->device->onednn, state.tensors.direction, &shape);
}

static int create_primitive(struct backend_program *program, const struct graph_node *node,
                            struct convolution_state *state, int size, struct error *error)
{
    struct onednn_convolution_shape shape = describe_shape(program, node, state, state->rows[size]);
    int result =
        onednn_convolution_create(program->device->onednn, state->tensors.direction, &shape,
                                  size ? &state->layout : NULL, &state->primitive[size], error);

    return result ? error_prefix(error, "layer %s", node->name) : 0;
}

/* A depthwise convolution, or a gradient of one, that a kernel of ours can do. */
static bool is_depthwise(const struct backend_program *program, const struct graph_node *node,
                         const struct convolution_state *state)
{
    const struct conv_attributes *a = &node->attributes.conv;
    const struct graph_shape *x = &program_tensor(program, state->tensors.x)->shape;
    const struct graph_shape *y = &program_tensor(program, state->tensors.y)->shape;

    return a->groups == x->extent[1] && a->groups == y->extent[1] && a->dilation[0] == 1 &&
           a->dilation[1] == 1 && !program->compact[node->input[0]];
}

/* Gives up the primitive that oneDNN has to offer, if it was asked. */
static void choose_own_kernel(const struct backend_program *program, const struct graph_node *node,
                              struct convolution_state *state)
{
    const struct conv_attributes *a = &node->attributes.conv;

    onednn_convolution_free(state->primitive[0]);
    state->primitive[0] = NULL;
    state->own_kernel = true;
    onednn_layout_depthwise(a->groups, (int64_t[]){a->kernel[0], a->kernel[1]},
                            program_image_layout(program, state->tensors.x, 1).block,
                            &state->layout);
}

static int create_primitives(struct backend_program *program, const struct graph_node *node,
                             struct convolution_state *state, struct error *error)
{
    int64_t batch = program->graph->batch;
    bool depthwise = is_depthwise(program, node, state);
    int result;

    state->rows[0] = batch / program->tasks;
    state->rows[1] = batch % program->tasks ? state->rows[0] + 1 : 0;
    if (depthwise && program->channels_last) {
        choose_own_kernel(program, node, state);
        return 0;
    }
    result = create_primitive(program, node, state, 0, error);
    if (!result && depthwise && state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS &&
        (onednn_convolution_is_reference(state->primitive[0]) ||
         !program_interleaves_channels(program, state->tensors.x))) {
        choose_own_kernel(program, node, state);
        return 0;
    }
    if (!result && onednn_convolution_is_reference(state->primitive[0]) &&
        (program_interleaves_channels(program, state->tensors.x) ||
         program_interleaves_channels(program, state->tensors.y))) {
        onednn_convolution_free(state->primitive[0]);
        state->primitive[0] = NULL;
        state->plain = true;
        result = create_primitive(program, node, state, 0, error);
    }
    if (result)
        return result;
    onednn_convolution_weights_layout(state->primitive[0], &state->layout);
    return state->rows[1] ? create_primitive(program, node, state, 1, error) : 0;
}

/* The parameter's layout becomes the primitive's where none has been chosen yet. */
static int agree_on_layout(struct backend_program *program, struct convolution_state *state,
                           struct error *error)
{
    const struct onednn_layout *own;

    if (program_choose_layout(program, state->tensors.weights, &state->layout, error))
        return -ENOMEM;
    own = program_parameter_layout(program, state->tensors.weights);
    if (onednn_layout_equal(own, &state->layout))
        return 0;
    if (state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS)
        return onednn_reorder_create(program->device->onednn, &state->layout, own, &state->reorder,
                                     error);
    return onednn_reorder_create(program->device->onednn, own, &state->layout, &state->reorder,
                                 error);
}

static size_t plain_bytes(const struct backend_program *program,
                          const struct convolution_state *state, int32_t tensor)
{
    if (!state->plain || !program_interleaves_channels(program, tensor))
        return 0;
    return align_up((size_t)graph_shape_elements(&program_tensor(program, tensor)->shape) *
                    sizeof(float));
}

/* [copy of the weights] [sum] [partial sums of each task] [x in NCHW] [y in NCHW] */
static size_t divide_workspace(struct backend_program *program, struct convolution_state *state)
{
    bool gradient = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS;
    size_t tasks = (size_t)program->tasks, offset = 0;
    size_t own =
        align_up(onednn_layout_bytes(program_parameter_layout(program, state->tensors.weights)));

    state->weight_bytes = align_up(onednn_layout_bytes(&state->layout));
    state->copy_offset = offset;
    offset += !state->reorder ? 0 : gradient ? own : state->weight_bytes;
    state->sum_offset = offset;
    offset += state->reorder && gradient ? state->weight_bytes : 0;
    state->partial_offset = offset;
    if (gradient) {
        int64_t biases = program_tensor(program, state->tensors.y)->shape.extent[1];

        state->partial_bytes =
            state->weight_bytes +
            (state->tensors.bias >= 0 ? align_up((size_t)biases * sizeof(float)) : 0);
        offset += tasks * state->partial_bytes;
    }
    for (int i = 0; i < 2 && state->primitive[i]; i++)
        program_reserve_scratch(program, onednn_convolution_scratch_bytes(state->primitive[i]));
    state->plain_x_offset = offset;
    state->plain_y_offset = state->plain_x_offset + plain_bytes(program, state, state->tensors.x);
    return state->plain_y_offset + plain_bytes(program, state, state->tensors.y);
}

static const struct operator_functions winograd_functions = {
    .prepare = winograd_prepare, .bind = winograd_bind, .release = free};

static const struct operator_functions tile_functions = {
    .prepare = tile_convolution_prepare, .bind = tile_convolution_bind, .release = free};
static const struct operator_functions product_functions = {
    .prepare = product_prepare, .bind = product_bind, .release = product_release};

int convolution_prepare(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct convolution_state *state;
    int result;

    if (program->tiled) {
        program->nodes[index].functions = &tile_functions;
        return tile_convolution_prepare(program, index, error);
    }
    if (winograd_suits(program, index)) {
        program->nodes[index].functions = &winograd_functions;
        return winograd_prepare(program, index, error);
    }
    if (product_suits(program, index)) {
        program->nodes[index].functions = &product_functions;
        return product_prepare(program, index, error);
    }
    state = calloc(1, sizeof(*state));
    if (!state)
        return error_set(error, -ENOMEM, "no memory for a convolution");
    program->nodes[index].state = state;
    state->tensors = convolution_tensors(node);
    result = create_primitives(program, node, state, error);
    if (!result)
        result = agree_on_layout(program, state, error);
    if (!result)
        program->workspace[index] = divide_workspace(program, state);
    return result;
}

void convolution_method(const struct backend_program *program, int32_t node,
                        char method[NODE_METHOD_MAX])
{
    const struct convolution_state *state = program->nodes[node].state;

    if (state->own_kernel)
        snprintf(method, NODE_METHOD_MAX, "kernel");
    else
        snprintf(method, NODE_METHOD_MAX, "%s%s",
                 onednn_convolution_implementation(state->primitive[0]),
                 state->plain ? " copies" : "");
}

void convolution_release(void *argument)
{
    struct convolution_state *state = argument;

    for (int task = 0; task < TASKS_MAX; task++)
        onednn_call_free(state->call[task]);
    onednn_call_free(state->direct_call);
    onednn_call_free(state->reorder_call);
    onednn_reorder_free(state->reorder);
    for (int i = 0; i < 2; i++)
        onednn_convolution_free(state->primitive[i]);
    free(state);
}

/* ---- run --------------------------------------------------------------------------------------
 */

static void run_reorder(struct backend_program *program, const struct step *step, int task,
                        int thread)
{
    const struct convolution_state *state = step->state;

    (void)task;
    program_record(program, onednn_call_run(state->reorder_call, thread));
}

static bool writes_gradient_itself(const struct backend_program *program,
                                   const struct convolution_state *state)
{
    return state->direct_call && !program->scalars.accumulate;
}

/* Where slice `first` of x or y is for the primitive. */
static void *primitive_sample(const struct backend_program *program,
                              const struct convolution_state *state, const char *workspace,
                              int32_t tensor, int64_t first)
{
    size_t offset = tensor == state->tensors.x ? state->plain_x_offset : state->plain_y_offset;

    if (!plain_bytes(program, state, tensor))
        return program_sample(program, tensor, first);
    return (char *)workspace + offset +
           (size_t)(first * program_sample_elements(program, tensor)) * sizeof(float);
}

/* Copies the task's slice of x or y between its blocks and NCHW, where the primitive wants that. */
static void convert_slice(struct backend_program *program, const struct step *step, int task,
                          int32_t tensor, bool to_plain)
{
    const struct convolution_state *state = step->state;
    struct range slice = program_slice(program, task);
    struct image_layout layout = program_image_layout(program, tensor, slice.end - slice.first);
    float *blocks = program_sample(program, tensor, slice.first);
    float *plain = primitive_sample(program, state, step->workspace, tensor, slice.first);

    if (plain == blocks)
        return;
    if (to_plain)
        program->device->kernels->blocks_to_plain(blocks, plain, &layout);
    else
        program->device->kernels->plain_to_blocks(plain, blocks, &layout);
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
    const float *weights = state->reorder ? (float *)(void *)(step->workspace + state->copy_offset)
                                          : program_address(program, state->tensors.weights);
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

static void run_convolution(struct backend_program *program, const struct step *step, int task,
                            int thread)
{
    const struct convolution_state *state = step->state;

    if (state->own_kernel) {
        run_own_kernel(program, step, task);
        return;
    }
    if (state->tensors.direction != ONEDNN_BACKWARD_DATA)
        convert_slice(program, step, task, state->tensors.x, true);
    if (state->tensors.direction != ONEDNN_FORWARD)
        convert_slice(program, step, task, state->tensors.y, true);
    if (writes_gradient_itself(program, state))
        program_record(program, onednn_call_run(state->direct_call, thread));
    else
        program_record(program, onednn_call_run(state->call[task], thread));
    if (state->tensors.direction == ONEDNN_FORWARD)
        convert_slice(program, step, task, state->tensors.y, false);
    else if (state->tensors.direction == ONEDNN_BACKWARD_DATA)
        convert_slice(program, step, task, state->tensors.x, false);
}

/* Part `task` of `count` elements: the sum of the tasks' partial sums at `offset` in each. */
static void sum_partials(struct backend_program *program, const struct step *step, int task,
                         size_t offset, int64_t count, float *result, bool accumulate)
{
    const struct convolution_state *state = step->state;
    struct range part = program_part(program, count, task);

    if (part.first < part.end)
        program->device->kernels->partials_sum(
            (const float *)(void *)(step->workspace + state->partial_offset + offset) + part.first,
            program->tasks, (int64_t)(state->partial_bytes / sizeof(float)), result + part.first,
            part.end - part.first, accumulate);
}

static void run_sum(struct backend_program *program, const struct step *step, int task, int thread)
{
    const struct convolution_state *state = step->state;
    bool accumulate = program->scalars.accumulate;
    int64_t count = (int64_t)(onednn_layout_bytes(&state->layout) / sizeof(float));

    (void)thread;
    if (writes_gradient_itself(program, state))
        return;
    if (state->reorder)
        sum_partials(program, step, task, 0, count,
                     (float *)(void *)(step->workspace + state->sum_offset), false);
    else
        sum_partials(program, step, task, 0, count,
                     program_address(program, state->tensors.weights), accumulate);
    if (state->tensors.bias >= 0)
        sum_partials(program, step, task, state->weight_bytes,
                     program_tensor(program, state->tensors.bias)->shape.extent[0],
                     program_address(program, state->tensors.bias), accumulate);
}

/* Adds the reordered sum to the gradient. */
static void run_take_copy(struct backend_program *program, const struct step *step, int task,
                          int thread)
{
    const struct convolution_state *state = step->state;
    int64_t rows, width;
    struct range part;

    (void)thread;
    program_parameter_rows(program, state->tensors.weights, &rows, &width);
    part = program_part(program, rows, task);
    if (part.first < part.end)
        program->device->kernels->partials_sum(
            (const float *)(void *)(step->workspace + state->copy_offset) + part.first, 1, 0,
            (float *)program_address(program, state->tensors.weights) + part.first,
            part.end - part.first, program->scalars.accumulate);
}

/* ---- bind -------------------------------------------------------------------------------------
 */

static int bind_call(struct backend_program *program, struct convolution_state *state, int task,
                     const char *workspace, void *weights, void *bias, struct onednn_call **call,
                     struct error *error)
{
    struct range slice = program_slice(program, task);
    int size = slice.end - slice.first == state->rows[0] ? 0 : 1;
    bool external = !program->tensor_bytes[program->root[state->tensors.x]];
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

static int bind_calls(struct backend_program *program, struct convolution_state *state,
                      char *workspace, struct error *error)
{
    void *own = program_address(program, state->tensors.weights);
    void *own_bias =
        state->tensors.bias >= 0 ? program_address(program, state->tensors.bias) : NULL;
    void *copy = workspace + state->copy_offset, *sum = workspace + state->sum_offset;
    bool gradient = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS;
    int result = 0;

    for (int task = 0; task < program->tasks && !state->own_kernel && !result; task++) {
        char *partial = workspace + state->partial_offset + (size_t)task * state->partial_bytes;
        void *weights = gradient ? partial : state->reorder ? copy : own;
        void *bias = gradient ? partial + state->weight_bytes : own_bias;

        result =
            bind_call(program, state, task, workspace, weights, bias, &state->call[task], error);
    }
    if (!result && gradient && program->tasks == 1 && !state->reorder && !state->own_kernel)
        result = bind_call(program, state, 0, workspace, own, own_bias, &state->direct_call, error);
    if (!result && state->reorder)
        result = onednn_reorder_bind(program->device->onednn, state->reorder, gradient ? sum : own,
                                     copy, &state->reorder_call, error);
    return result;
}

static void touch_plain(struct backend_program *program, struct step *step, int32_t tensor)
{
    const struct convolution_state *state = step->state;

    if (plain_bytes(program, state, tensor))
        step_touch(step, primitive_sample(program, state, step->workspace, tensor, 0),
                   (size_t)program_sample_elements(program, tensor) * sizeof(float),
                   program->graph->batch, ACCESS_SLICE, true);
}

/* Forward and backward data: [copy the weights], then the slices. */
static int add_data_steps(struct backend_program *program, int32_t index,
                          struct convolution_state *state)
{
    char *workspace = program->node_address[index];
    bool forward = state->tensors.direction == ONEDNN_FORWARD;
    struct step *step;

    if (state->reorder) {
        step = program_add_step(program, index, run_reorder);
        if (!step)
            return -ENOMEM;
        step->first_task_only = true;
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_FIRST, false);
        step_touch(step, workspace + state->copy_offset, state->weight_bytes, 1, ACCESS_FIRST,
                   true);
    }
    step = program_add_step(program, index, run_convolution);
    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->tensors.x, ACCESS_SLICE, !forward);
    step_touch_tensor(program, step, state->tensors.y, ACCESS_SLICE, forward);
    touch_plain(program, step, state->tensors.x);
    touch_plain(program, step, state->tensors.y);
    if (state->reorder)
        step_touch(step, workspace + state->copy_offset, state->weight_bytes, 1, ACCESS_WHOLE,
                   false);
    else
        step_touch_tensor(program, step, state->tensors.weights, ACCESS_WHOLE, false);
    step_touch_tensor(program, step, state->tensors.bias, ACCESS_WHOLE, false);
    return 0;
}

/* Backward weights: the slices, their sum, and where the layouts differ a copy. */
static int add_weight_steps(struct backend_program *program, int32_t index,
                            struct convolution_state *state)
{
    char *workspace = program->node_address[index];
    int64_t sum_count = (int64_t)(state->weight_bytes / sizeof(float));
    struct step *step = program_add_step(program, index, run_convolution);

    if (!step)
        return -ENOMEM;
    step_touch_tensor(program, step, state->tensors.x, ACCESS_SLICE, false);
    step_touch_tensor(program, step, state->tensors.y, ACCESS_SLICE, false);
    touch_plain(program, step, state->tensors.x);
    touch_plain(program, step, state->tensors.y);
    step_touch(step, workspace + state->partial_offset, state->partial_bytes, program->tasks,
               ACCESS_TASK, true);
    step = program_add_step(program, index, run_sum);
    if (!step)
        return -ENOMEM;
    step_touch(step, workspace + state->partial_offset, state->partial_bytes, program->tasks,
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
    step->first_task_only = true;
    step_touch(step, workspace + state->sum_offset, state->weight_bytes, 1, ACCESS_FIRST, false);
    step_touch(step, workspace + state->copy_offset, state->sum_offset - state->copy_offset, 1,
               ACCESS_FIRST, true);
    step = program_add_step(program, index, run_take_copy);
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
