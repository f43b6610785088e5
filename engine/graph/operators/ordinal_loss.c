/* ordinal_loss.c: the loss for classes that are in order, and its gradient: the mean, over the
 * places between two classes, of the binary cross entropy of the cumulative probability that the
 * class lies above. It is the ranked ignorance score (Tödter and Ahrens 2012,
 * doi:10.1175/MWR-D-11-00266.1) of the probabilities that the softmax gives, with natural
 * logarithms. So a class far from the label costs more than its neighbour. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_ordinal_loss(struct graph *graph, int32_t logits)
{
    int32_t inputs[2] = {logits, -1}, result;
    const struct graph_shape row = {.rank = 1, .extent = {graph->batch}};

    if (layer_prediction(graph, logits, OP_ORDINAL_LOSS, "classes"))
        return graph->error.code;
    graph->target = graph_append_tensor(graph, TENSOR_INPUT, TENSOR_INT32, &row, true, "target");
    inputs[1] = graph->target;
    result = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &row, true,
                                 "loss.log_sum_exp");
    layer_append_node(graph, OP_ORDINAL_LOSS, "loss", inputs, 2, result);
    graph->output = logits;
    return graph->error.code ? graph->error.code : result;
}

/* Maximum, difference, exp, sum, and a logarithm of the sums of either side. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 7;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {node->input[0], node->input[1], node->output[0]};

    (void)dy;
    differentiation_append(differentiation, node, OP_ORDINAL_LOSS_BACKWARD, inputs, 3, node->input,
                           1);
}

const struct graph_operator operator_ordinal_loss = {
    .cost_class = COST_LOSS,
    .is_loss = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_ordinal_loss_backward = {
    .cost_class = COST_LOSS,
    .flops = flops,
};
