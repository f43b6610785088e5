/* resize2d.c: images of another height and width, as torch.nn.functional.interpolate in the modes
 * "nearest" and "bilinear", and the gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

static const char *const resize_mode_names[] = {
    [RESIZE_NEAREST] = "nearest",
    [RESIZE_BILINEAR] = "bilinear",
    [RESIZE_BILINEAR_CORNERS] = "bilinear_corners",
};
DEFINE_STRING_TABLE(resize_mode, enum resize_mode, resize_mode_names)

/* How far the points of the result lie apart in the operand: torch's
 * area_pixel_compute_scale(). */
static float step_of(const struct resize *resize, int axis, int64_t from, int64_t to)
{
    if (resize->mode == RESIZE_BILINEAR_CORNERS)
        return to > 1 ? (float)(from - 1) / (float)(to - 1) : 0.0f;
    return resize->scale[axis] > 0 ? (float)(1 / resize->scale[axis]) : (float)from / (float)to;
}

int32_t graph_resize2d(struct graph *graph, int32_t input, const char *name,
                       const struct resize *resize)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_RESIZE2D);
    struct graph_shape shape, result;
    struct graph_node *node;
    char text[SHAPE_TEXT_MAX];

    if (!x)
        return graph->error.code;
    shape = result = x->shape;
    result.extent[2] = resize->height;
    result.extent[3] = resize->width;
    if (resize->height < 1 || resize->width < 1 || resize->height > RESIZE_EXTENT_MAX ||
        resize->width > RESIZE_EXTENT_MAX)
        return layer_fail(graph, name, OP_RESIZE2D,
                          "%lldx%lld pixels from the input %s; 1 to %d are possible on each side",
                          (long long)resize->height, (long long)resize->width,
                          graph_shape_format(&shape, text, sizeof text), RESIZE_EXTENT_MAX);
    node = layer_append_node(graph, OP_RESIZE2D, name, &input, 1,
                             layer_append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.resize.mode = resize->mode;
    for (int axis = 0; axis < 2; axis++)
        node->attributes.resize.step[axis] =
            step_of(resize, axis, shape.extent[2 + axis], result.extent[2 + axis]);
    return graph->output;
}

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    (void)graph;
    return resize_mode_to_string(node->attributes.resize.mode);
}

static double flops_each(const struct graph_node *node)
{
    return node->attributes.resize.mode == RESIZE_NEAREST ? 0 : 7;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * flops_each(node);
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * flops_each(node);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_RESIZE2D_BACKWARD, &dy, 1, node->input, 1);
}

const struct graph_operator operator_resize2d = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .flops = flops,
    .variant = variant,
    .differentiate = differentiate,
};

const struct graph_operator operator_resize2d_backward = {
    .cost_class = COST_POOLING,
    .flops = flops_backward,
    .variant = variant,
};
