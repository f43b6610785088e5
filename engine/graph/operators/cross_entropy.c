/* cross_entropy.c: the loss for classes, as torch.nn.functional.cross_entropy, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

static int32_t append_cross_entropy(struct graph *graph, int32_t logits, bool soft)
{
    int32_t inputs[2] = {logits, -1}, result;
    struct graph_shape row, target;

    if (layer_prediction(graph, logits, OP_CROSS_ENTROPY, "classes"))
        return graph->error.code;
    row = graph->tensors[logits].shape;
    row.rank--; /* a label for each row of logits */
    target = row;
    if (soft)
        target = graph->tensors[logits].shape;
    graph->target = graph_append_tensor(graph, TENSOR_INPUT, soft ? TENSOR_FLOAT32 : TENSOR_INT32,
                                        &target, true, "target");
    inputs[1] = graph->target;
    result = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &row, true,
                                 "loss.log_sum_exp");
    layer_append_node(graph, OP_CROSS_ENTROPY, "loss", inputs, 2, result);
    graph->output = logits;
    return graph->error.code ? graph->error.code : result;
}

int32_t graph_cross_entropy(struct graph *graph, int32_t logits)
{
    return append_cross_entropy(graph, logits, false);
}

int32_t graph_soft_cross_entropy(struct graph *graph, int32_t logits)
{
    return append_cross_entropy(graph, logits, true);
}

/* Maximum, difference, exp, sum. With probabilities as targets also their product with the
 * difference, and its sum. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    bool soft = graph->tensors[node->input[1]].type == TENSOR_FLOAT32;

    return graph_tensor_elements(graph, node->input[0]) * (soft ? 6 : 4);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {node->input[0], node->input[1], node->output[0]};

    (void)dy;
    differentiation_append(differentiation, node, OP_CROSS_ENTROPY_BACKWARD, inputs, 3, node->input,
                           1);
}

const struct graph_operator operator_cross_entropy = {
    .cost_class = COST_LOSS,
    .is_loss = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_cross_entropy_backward = {
    .cost_class = COST_LOSS,
    .flops = flops,
};
