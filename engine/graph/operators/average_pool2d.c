/* average_pool2d.c: the mean of each window, as torch.nn.AvgPool2d, or of each channel; and its
 * gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_average_pool2d(struct graph *graph, int32_t input, const char *name,
                             const struct conv_attributes *attributes)
{
    return layer_append_pool(graph, input, name, OP_AVERAGE_POOL2D, attributes, false);
}

int32_t graph_global_average_pool2d(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_AVERAGE_POOL2D);
    struct conv_attributes whole = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};

    if (!x)
        return graph->error.code;
    for (int axis = 0; axis < 2; axis++)
        whole.kernel[axis] = (int)x->shape.extent[2 + axis];
    return layer_append_pool(graph, input, name, OP_AVERAGE_POOL2D, &whole, false);
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * node->attributes.conv.kernel[0] *
           node->attributes.conv.kernel[1];
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * node->attributes.conv.kernel[0] *
           node->attributes.conv.kernel[1];
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_AVERAGE_POOL2D_BACKWARD, &dy, 1, node->input,
                           1);
}

const struct graph_operator operator_average_pool2d = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_average_pool2d_backward = {
    .cost_class = COST_POOLING,
    .flops = flops_backward,
};
