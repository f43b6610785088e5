/* operator_convolution.c: convolutions by oneDNN, with one call for each slice of the batch.
 *
 * A parameter has the layout in which oneDNN computes the gradient of its weights, so that the
 * update needs no copy. If a forward or backward-data primitive wants another layout, its first
 * step copies the weights. The slices' gradients of the weights are partial sums, which are added
 * in pairs.
 *
 * For some images in blocks oneDNN has only its slow reference: those with one channel, or with a
 * number of channels that does not fill blocks. There it works on copies in NCHW. For the gradient
 * of depthwise weights a kernel of ours is used instead, and with channels-last images for all that
 * is depthwise (kernels/depthwise.c). */
#include "base/alignment.h"
#include "engine/backends/cpu/operator_convolution_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- prepare --------------------------------------------------------------------------------- */

/* The order of the images that the primitive gets. */
static enum onednn_images image_order(const struct backend_program *program,
                                      const struct convolution_state *state, int32_t tensor)
{
    int64_t block = program_image_layout(program, tensor, 1).block;

    if (state->plain)
        return ONEDNN_NCHW;
    if (state->copies)
        return state->copy_order;
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

/* Whether a kernel of ours can compute this node: a depthwise convolution, or a gradient of one. */
static bool is_depthwise(const struct backend_program *program, const struct graph_node *node,
                         const struct convolution_state *state)
{
    const struct conv_attributes *a = &node->attributes.conv;
    const struct graph_shape *x = &program_tensor(program, state->tensors.x)->shape;
    const struct graph_shape *y = &program_tensor(program, state->tensors.y)->shape;

    return a->groups == x->extent[1] && a->groups == y->extent[1] && a->dilation[0] == 1 &&
           a->dilation[1] == 1 && !program->compact[node->input[0]];
}

/* Replaces oneDNN's primitive, if there is one, by a kernel of ours. */
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

/* The layout of weights in PyTorch's order. */
static void plain_layout(const struct onednn_convolution_shape *shape, struct onednn_layout *layout)
{
    int64_t out = shape->out_channels / shape->groups, in = shape->channels / shape->groups;

    onednn_layout_plain_weights(
        (int64_t[]){shape->groups, out, in, shape->kernel[0], shape->kernel[1]}, layout);
}

static int create_planes(struct backend_program *program, const struct graph_node *node,
                         struct convolution_state *state, struct error *error)
{
    int size = state->rows[1] ? 1 : 0;
    bool divided = program_slices_differ(program);
    struct onednn_convolution_shape shape =
        describe_shape(program, node, state, divided ? program->graph->batch : state->rows[size]);

    state->planes = planes_create(
        program->device->kernels, state->tensors.direction, &shape, divided ? program->parts : 0,
        program_convolution_method(program, node) == CONVOLUTION_PLANES_IN_TURN);
    state->divided = divided;
    plain_layout(&shape, &state->layout);
    return state->planes ? 0 : error_no_memory(error, "a convolution");
}

static int create_unfolded(struct backend_program *program, const struct graph_node *node,
                           struct convolution_state *state, struct error *error)
{
    struct onednn_convolution_shape shape =
        describe_shape(program, node, state, program->graph->batch);

    state->unfolded =
        unfolded_create(program->device->kernels, state->tensors.direction, &shape, program->parts);
    if (!state->unfolded)
        return error_no_memory(error, "a convolution");
    state->divided = true;
    unfolded_weights_layout(state->unfolded, &state->layout);
    return 0;
}

/* Creates the copies between the tensor and the other order, for slices of both sizes. */
static int create_copy(struct backend_program *program, const struct convolution_state *state,
                       int32_t tensor, bool from_copy, struct image_copy *copy, struct error *error)
{
    static const struct convolution_state as_it_is = {0};
    const int64_t *extent = program_tensor(program, tensor)->shape.extent;
    enum onednn_images own = image_order(program, &as_it_is, tensor);
    enum onednn_images order = image_order(program, state, tensor);
    struct onednn_layout a, b;
    int result = 0;

    if (own == order)
        return 0;
    for (int i = 0; i < 2 && state->rows[i] && !result; i++) {
        onednn_layout_images(state->rows[i], extent[1], extent[2], extent[3], own, &a);
        onednn_layout_images(state->rows[i], extent[1], extent[2], extent[3], order, &b);
        result = onednn_reorder_create(program->device->onednn, from_copy ? &b : &a,
                                       from_copy ? &a : &b, &copy->reorder[i], error);
    }
    onednn_layout_images(1, extent[1], extent[2], extent[3], order, &b);
    copy->sample_bytes = onednn_layout_bytes(&b);
    return result;
}

/* Creates the primitive over copies in that order, if oneDNN has one other than its reference. */
static int create_over_copies(struct backend_program *program, const struct graph_node *node,
                              enum onednn_images order, struct convolution_state *state,
                              struct error *error)
{
    enum onednn_direction direction = state->tensors.direction;
    struct error own;
    int result;

    state->copies = true;
    state->copy_order = order;
    result = create_primitive(program, node, state, 0, &own);
    if (result == -ENOMEM)
        return error_set(error, result, "%s", own.text);
    if (result || onednn_convolution_is_reference(state->primitive[0])) {
        onednn_convolution_free(state->primitive[0]);
        state->primitive[0] = NULL;
        state->copies = false;
        return 0;
    }
    result = create_copy(program, state, state->tensors.x, direction == ONEDNN_BACKWARD_DATA,
                         &state->copy_x, error);
    if (!result)
        result = create_copy(program, state, state->tensors.y, direction == ONEDNN_FORWARD,
                             &state->copy_y, error);
    return result;
}

/* Lists layouts of weights that a convolution divided by channels may use, the best one first: the
 * parameter's; that of the AVX-512 kernels, which needs no copies; PyTorch's order, which can
 * always be divided. Returns how many there are. */
static int channels_layouts(const struct backend_program *program,
                            const struct onednn_convolution_shape *shape,
                            const struct onednn_layout *chosen, struct onednn_layout layouts[2])
{
    int block = program->device->image_block, count = 0;

    if (chosen)
        layouts[count++] = *chosen;
    else if (shape->groups == 1 && shape->channels >= block)
        onednn_layout_blocked_weights(
            (int64_t[]){shape->out_channels, shape->channels, shape->kernel[0], shape->kernel[1]},
            block, &layouts[count++]);
    plain_layout(shape, &layouts[count++]);
    return count;
}

/* Divides the convolution by channels if that is possible; otherwise the state stays as it is. */
static int create_channels(struct backend_program *program, const struct graph_node *node,
                           enum onednn_images order, struct convolution_state *state,
                           struct error *error)
{
    struct onednn_convolution_shape shape =
        describe_shape(program, node, state, program->graph->batch);
    const struct onednn_layout *chosen = program_parameter_layout(program, state->tensors.weights);
    struct onednn_layout layouts[2];
    int count = channels_layouts(program, &shape, chosen, layouts), result = -ERROR_UNSUPPORTED;
    struct error own;

    for (int i = 0; i < count && result == -ERROR_UNSUPPORTED; i++) {
        state->layout = layouts[i];
        result = channels_create(program->device->onednn, state->tensors.direction, &shape, order,
                                 &state->layout, program->parts, &state->channels, &own);
    }
    if (result && result != -ERROR_UNSUPPORTED)
        return error_set(error, result, "%s", own.text);
    state->divided = !result;
    return 0;
}

static enum onednn_images copy_order(const struct backend_program *program,
                                     enum convolution_method method)
{
    if (method == CONVOLUTION_LAST_COPIES || method == CONVOLUTION_LAST_CHANNELS)
        return ONEDNN_NHWC;
    return program->device->image_block == 16 ? ONEDNN_NCHW16C : ONEDNN_NCHW8C;
}

static bool is_by_channels(enum convolution_method method)
{
    return method == CONVOLUTION_LAST_CHANNELS || method == CONVOLUTION_BLOCK_CHANNELS;
}

static bool is_over_copies(enum convolution_method method)
{
    return method == CONVOLUTION_BLOCK_COPIES || method == CONVOLUTION_LAST_COPIES ||
           is_by_channels(method);
}

static int create_primitives(struct backend_program *program, const struct graph_node *node,
                             struct convolution_state *state, struct error *error)
{
    int64_t batch = program->graph->batch;
    enum convolution_method method = program_convolution_method(program, node);
    bool depthwise = method == CONVOLUTION_BY_DEVICE && is_depthwise(program, node, state);
    int result;

    state->rows[0] = batch / program->tasks;
    state->rows[1] = batch % program->tasks ? state->rows[0] + 1 : 0;
    if (convolution_is_over_planes(method) && !program->compact[node->input[0]])
        return create_planes(program, node, state, error);
    if (method == CONVOLUTION_UNFOLDED && !program->compact[node->input[0]])
        return create_unfolded(program, node, state, error);
    if (depthwise && program->channels_last) {
        choose_own_kernel(program, node, state);
        return 0;
    }
    if (is_by_channels(method) && !program->compact[node->input[0]]) {
        result = create_channels(program, node, copy_order(program, method), state, error);
        if (result || state->channels)
            return result;
    }
    if (is_over_copies(method) && !program->compact[node->input[0]]) {
        result = create_over_copies(program, node, copy_order(program, method), state, error);
        if (result)
            return result;
    }
    state->plain = method == CONVOLUTION_PLAIN_COPIES;
    result = state->copies ? 0 : create_primitive(program, node, state, 0, error);
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

static void free_part_reorders(struct convolution_state *state)
{
    for (int i = 0; i < TASKS_MAX; i++) {
        onednn_reorder_free(state->part_reorder[i]);
        state->part_reorder[i] = NULL;
    }
    state->reorder_parts = 0;
}

/* Divides a copy of weights into ranges of output channels (or groups), in multiples of `grain`.
 * False: a layout has blocks of another size. */
static bool divide_reorder(struct backend_program *program, struct convolution_state *state,
                           const struct onednn_layout *from, const struct onednn_layout *to,
                           int64_t count, int64_t grain)
{
    int64_t grains = (count + grain - 1) / grain;
    int parts = grains < program->parts ? (int)grains : program->parts;
    struct error error;

    for (int i = 0; i < parts; i++) {
        int64_t first = grains * i / parts * grain, end = grains * (i + 1) / parts * grain;
        struct onednn_layout a, b;

        end = end < count ? end : count;
        if (onednn_layout_part(from, 0, first, end - first, &a) ||
            onednn_layout_part(to, 0, first, end - first, &b) ||
            onednn_reorder_create(program->device->onednn, &a, &b, &state->part_reorder[i],
                                  &error)) {
            free_part_reorders(state);
            return false;
        }
    }
    state->reorder_parts = parts;
    return true;
}

/* Creates the copy between two layouts of the weights, divided among the tasks if that is
 * possible. */
static int create_reorders(struct backend_program *program, struct convolution_state *state,
                           const struct onednn_layout *from, const struct onednn_layout *to,
                           struct error *error)
{
    static const int64_t grains[] = {16, 32, 48, 64}; /* the blocks of oneDNN's layouts */
    int64_t count = onednn_layout_extent(from, 0);

    for (size_t i = 0; i < sizeof grains / sizeof *grains && !state->reorder_parts; i++)
        if (divide_reorder(program, state, from, to, count, grains[i]))
            break;
    return onednn_reorder_create(program->device->onednn, from, to, &state->reorder, error);
}

/* Makes the primitive's layout that of the parameter, if none has been chosen yet. */
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
        return create_reorders(program, state, &state->layout, own, error);
    return create_reorders(program, state, own, &state->layout, error);
}

size_t convolution_plain_bytes(const struct backend_program *program,
                               const struct convolution_state *state, int32_t tensor)
{
    if (!state->plain || !program_interleaves_channels(program, tensor))
        return 0;
    return align_up((size_t)graph_shape_elements(&program_tensor(program, tensor)->shape) *
                        sizeof(float),
                    MEMORY_ALIGNMENT);
}

/* The workspace is [copy of the weights] [sum] [partial sums of each task] [x in NCHW] [y in
 * NCHW]. */
static size_t divide_workspace(struct backend_program *program, struct convolution_state *state)
{
    bool gradient = state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS;
    size_t offset = 0;
    size_t own =
        align_up(onednn_layout_bytes(program_parameter_layout(program, state->tensors.weights)),
                 MEMORY_ALIGNMENT);

    state->weight_bytes = align_up(onednn_layout_bytes(&state->layout), MEMORY_ALIGNMENT);
    state->copy_offset = offset;
    offset += !state->reorder ? 0 : gradient ? own : state->weight_bytes;
    state->sum_offset = offset;
    offset += state->reorder && gradient ? state->weight_bytes : 0;
    state->partial_offset = offset;
    if (gradient) {
        int64_t biases = program_tensor(program, state->tensors.y)->shape.extent[1];

        state->partial_bytes =
            state->weight_bytes + (state->tensors.bias >= 0
                                       ? align_up((size_t)biases * sizeof(float), MEMORY_ALIGNMENT)
                                       : 0);
        state->partials =
            !state->divided ? program->tasks
            : state->channels || state->unfolded || planes_divides_weights(state->planes)
                ? 1
                : program->parts;
        offset += (size_t)state->partials * state->partial_bytes;
    }
    for (int i = 0; i < 2 && state->primitive[i]; i++)
        program_reserve_scratch(program, onednn_convolution_scratch_bytes(state->primitive[i]));
    if (state->channels) {
        program_reserve_scratch(program, channels_scratch_bytes(state->channels));
        state->channels_offset = offset;
        offset += align_up(channels_workspace_bytes(state->channels), MEMORY_ALIGNMENT);
    }
    if (state->planes) {
        program_reserve_scratch(program, planes_scratch_bytes(state->planes));
        state->packed_offset = offset;
        offset += align_up(planes_packed_bytes(state->planes), MEMORY_ALIGNMENT);
    }
    if (state->unfolded) {
        program_reserve_scratch(program, unfolded_scratch_bytes(state->unfolded));
        state->packed_offset = offset;
        offset += align_up(unfolded_packed_bytes(state->unfolded), MEMORY_ALIGNMENT);
    }
    state->plain_x_offset = offset;
    state->plain_y_offset =
        state->plain_x_offset + convolution_plain_bytes(program, state, state->tensors.x);
    offset = state->plain_y_offset + convolution_plain_bytes(program, state, state->tensors.y);
    state->copy_x.offset = offset;
    offset +=
        align_up((size_t)program->graph->batch * state->copy_x.sample_bytes, MEMORY_ALIGNMENT);
    state->copy_y.offset = offset;
    return offset +
           align_up((size_t)program->graph->batch * state->copy_y.sample_bytes, MEMORY_ALIGNMENT);
}

static void release_copy(struct image_copy *copy)
{
    for (int task = 0; task < TASKS_MAX; task++)
        onednn_call_free(copy->call[task]);
    for (int i = 0; i < 2; i++)
        onednn_reorder_free(copy->reorder[i]);
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
        return error_no_memory(error, "a convolution");
    program->nodes[index].state = state;
    state->tensors = convolution_tensors(node);
    result = create_primitives(program, node, state, error);
    if (!result)
        result = agree_on_layout(program, state, error);
    state->direct_parts =
        !result && !state->reorder && state->tensors.direction == ONEDNN_BACKWARD_WEIGHTS &&
        (state->unfolded || (state->channels && channels_use_weights_in_place(state->channels)));
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
    else if (state->planes)
        snprintf(method, NODE_METHOD_MAX, "planes");
    else if (state->unfolded)
        snprintf(method, NODE_METHOD_MAX, "unfolded");
    else if (state->channels)
        snprintf(method, NODE_METHOD_MAX, "%s channels", channels_implementation(state->channels));
    else
        snprintf(method, NODE_METHOD_MAX, "%s%s",
                 onednn_convolution_implementation(state->primitive[0]),
                 state->plain                       ? " copies"
                 : !state->copies                   ? ""
                 : state->copy_order == ONEDNN_NHWC ? " last_copies"
                                                    : " block_copies");
}

void convolution_release(void *argument)
{
    struct convolution_state *state = argument;

    for (int task = 0; task < TASKS_MAX; task++)
        onednn_call_free(state->call[task]);
    onednn_call_free(state->direct_call);
    for (int i = 0; i < TASKS_MAX; i++)
        onednn_call_free(state->reorder_call[i]);
    free_part_reorders(state);
    onednn_reorder_free(state->reorder);
    planes_free(state->planes);
    channels_free(state->channels);
    unfolded_free(state->unfolded);
    release_copy(&state->copy_x);
    release_copy(&state->copy_y);
    for (int i = 0; i < 2; i++)
        onednn_convolution_free(state->primitive[i]);
    free(state);
}
