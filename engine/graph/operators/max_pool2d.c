/* max_pool2d.c: the largest number of each window, as torch.nn.MaxPool2d, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_max_pool2d(struct graph *graph, int32_t input, const char *name,
                         const struct conv_attributes *attributes)
{
    return layer_append_pool(graph, input, name, OP_MAX_POOL2D, attributes, true);
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * node->attributes.conv.kernel[0] *
           node->attributes.conv.kernel[1];
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_MAX_POOL2D_BACKWARD,
                           (int32_t[]){dy, node->output[1]}, 2, node->input, 1);
}

const struct graph_operator operator_max_pool2d = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_max_pool2d_backward = {
    .cost_class = COST_POOLING,
    .flops = flops_backward,
};
