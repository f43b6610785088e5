/* focal_loss.c: the softmax cross entropy of each sample, times (1 - p)^gamma with the probability
 * p of its label (Lin, Goyal, Girshick, He and Dollár 2017, arXiv:1708.02002), and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <errno.h>

int32_t graph_focal_loss(struct graph *graph, int32_t logits, float gamma)
{
    int32_t inputs[2] = {logits, -1}, result;
    const struct graph_shape row = {.rank = 1, .extent = {graph->batch}};
    struct graph_node *node;

    if (layer_prediction(graph, logits, OP_FOCAL_LOSS, "classes"))
        return graph->error.code;
    if (!(gamma >= 0))
        return graph_fail(graph, -EINVAL, "the loss focal needs a gamma of at least 0, not %g",
                          (double)gamma);
    graph->target = graph_append_tensor(graph, TENSOR_INPUT, TENSOR_INT32, &row, true, "target");
    inputs[1] = graph->target;
    result = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &row, true,
                                 "loss.log_sum_exp");
    node = layer_append_node(graph, OP_FOCAL_LOSS, "loss", inputs, 2, result);
    if (!node)
        return graph->error.code;
    node->attributes.focal_gamma = gamma;
    graph->output = logits;
    return result;
}

/* Maximum, difference, exp, sum. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 4;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {node->input[0], node->input[1], node->output[0]};

    (void)dy;
    differentiation_append(differentiation, node, OP_FOCAL_LOSS_BACKWARD, inputs, 3, node->input,
                           1);
}

const struct graph_operator operator_focal_loss = {
    .cost_class = COST_LOSS,
    .is_loss = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_focal_loss_backward = {
    .cost_class = COST_LOSS,
    .flops = flops,
};
