/* adaptive_pool2d.c: pools whose windows follow from the size of the result, as
 * torch.nn.AdaptiveAvgPool2d and AdaptiveMaxPool2d, and their gradients. Where the result divides
 * the image, they are pools with a fixed window. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

static int32_t append(struct graph *graph, int32_t input, const char *name, enum graph_op fixed,
                      enum graph_op op, const int64_t size[2]);

/* Windows with too many positions: the maximum of each row, and then of these (large_pool.c). */
static int32_t append_by_axes(struct graph *graph, int32_t input, const char *name,
                              enum graph_op fixed, enum graph_op op, const int64_t size[2])
{
    const int64_t rows[2] = {graph->tensors[input].shape.extent[2], size[1]};

    input = append(graph, input, layer_part_name(name, "first_maximum").text, fixed, op, rows);
    return input < 0 ? input : append(graph, input, name, fixed, op, size);
}

/* A pool of the size: one with a fixed window or, where there is none, `op`. */
static int32_t append(struct graph *graph, int32_t input, const char *name, enum graph_op fixed,
                      enum graph_op op, const int64_t size[2])
{
    const struct graph_tensor *x = layer_image(graph, input, name, op);
    bool maximum = fixed == OP_MAX_POOL2D;
    struct conv_attributes window = {.dilation = {1, 1}, .groups = 1};
    char text[SHAPE_TEXT_MAX];
    struct graph_shape shape;
    struct graph_node *node;
    int32_t position = -1;
    int positions[2];
    bool divides = true;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    for (int axis = 0; axis < 2; axis++) {
        if (size[axis] < 1 || size[axis] > shape.extent[2 + axis])
            return layer_fail(graph, name, op, "cannot make %lldx%lld pixels of the input %s",
                              (long long)size[0], (long long)size[1],
                              graph_shape_format(&shape, text, sizeof text));
        window.kernel[axis] = (int)(shape.extent[2 + axis] / size[axis]);
        window.stride[axis] = window.kernel[axis];
        /* a window is at most two pixels longer than the whole part of the quotient, and the
         * positions of a row are counted so even if it is not */
        positions[axis] = window.kernel[axis] + 2;
        divides &= shape.extent[2 + axis] % size[axis] == 0;
    }
    if (shape.extent[2] % size[0] == 0)
        positions[0] = window.kernel[0];
    if (divides)
        return layer_append_pool(graph, input, name, fixed, &window, maximum);
    if (maximum && positions[0] * positions[1] > POOL_POSITIONS && size[0] < shape.extent[2] &&
        size[1] < shape.extent[3])
        return append_by_axes(graph, input, name, fixed, op, size);
    if (maximum && positions[0] * positions[1] > POOL_POSITIONS)
        return layer_fail(graph, name, op,
                          "windows of several lengths, of about %dx%d pixels, have more than %d "
                          "positions; take a size that divides the %lldx%lld pixels of the input",
                          window.kernel[0], window.kernel[1], POOL_POSITIONS,
                          (long long)shape.extent[2], (long long)shape.extent[3]);
    shape.extent[2] = size[0];
    shape.extent[3] = size[1];
    if (maximum && graph->training)
        position = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_UINT8, &shape, true,
                                       "%s.position", name);
    node = layer_append_node(graph, op, name, &input, 1, layer_append_result(graph, name, &shape));
    if (node && position >= 0)
        graph_node_output(graph, node, position);
    return graph->error.code ? graph->error.code : graph->output;
}

int32_t graph_adaptive_average_pool2d(struct graph *graph, int32_t input, const char *name,
                                      int64_t height, int64_t width)
{
    return append(graph, input, name, OP_AVERAGE_POOL2D, OP_ADAPTIVE_AVERAGE_POOL2D,
                  (int64_t[]){height, width});
}

int32_t graph_adaptive_max_pool2d(struct graph *graph, int32_t input, const char *name,
                                  int64_t height, int64_t width)
{
    return append(graph, input, name, OP_MAX_POOL2D, OP_ADAPTIVE_MAX_POOL2D,
                  (int64_t[]){height, width});
}

/* About one operation for each pixel of the image. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]);
}

static void differentiate_average(struct differentiation *differentiation,
                                  const struct graph_node *node, int32_t dy)
{
    differentiation_append(differentiation, node, OP_ADAPTIVE_AVERAGE_POOL2D_BACKWARD, &dy, 1,
                           node->input, 1);
}

static void differentiate_max(struct differentiation *differentiation,
                              const struct graph_node *node, int32_t dy)
{
    const int32_t inputs[] = {dy, node->output[1]};

    differentiation_append(differentiation, node, OP_ADAPTIVE_MAX_POOL2D_BACKWARD, inputs, 2,
                           node->input, 1);
}

const struct graph_operator operator_adaptive_average_pool2d = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate_average,
};

const struct graph_operator operator_adaptive_average_pool2d_backward = {
    .cost_class = COST_POOLING,
    .flops = flops_backward,
};

const struct graph_operator operator_adaptive_max_pool2d = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate_max,
};

const struct graph_operator operator_adaptive_max_pool2d_backward = {
    .cost_class = COST_POOLING,
    .flops = flops_backward,
};
