/* softmax.c: the softmax of each row, as torch.softmax along the last axis, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_softmax(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x = layer_rows(graph, input, name, OP_SOFTMAX);
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    layer_append_node(graph, OP_SOFTMAX, name, &input, 1, layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * 4;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->output[0]};

    differentiation_append(differentiation, node, OP_SOFTMAX_BACKWARD, inputs, 2, node->input, 1);
}

const struct graph_operator operator_softmax = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_softmax_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
};
