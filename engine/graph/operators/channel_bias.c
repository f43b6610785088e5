/* channel_bias.c: adds a number of its own to every channel, and the gradient. */
#include "engine/graph/operators/operators.h"

int32_t layer_append_channel_bias(struct graph *graph, int32_t input, const char *name,
                                  int32_t bias)
{
    const int32_t inputs[2] = {input, bias};
    struct graph_shape shape;

    if (graph->error.code)
        return graph->error.code;
    shape = graph->tensors[input].shape;
    layer_append_node(graph, OP_CHANNEL_BIAS, name, inputs, 2,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_CHANNEL_BIAS_BACKWARD, &dy, 1, &node->input[1],
                           1);
    if (differentiation_needs(differentiation, node->input[0]))
        differentiation_give(differentiation, node->input[0], dy);
}

const struct graph_operator operator_channel_bias = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_channel_bias_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
};
