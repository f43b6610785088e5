/* head_losses.c: the sum of the losses of several heads, which have a part of the output each, and
 * its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_head_losses(struct graph *graph, int32_t logits, const struct loss_head *heads,
                          int count)
{
    struct graph_shape target = {.rank = 2, .extent = {graph->batch, 0}};
    int32_t inputs[2] = {logits, -1};
    int64_t classes = 0;

    if (layer_prediction(graph, logits, OP_HEAD_LOSSES, "outputs"))
        return graph->error.code;
    if (count < 1 || count > GRAPH_HEADS_MAX)
        return layer_fail(graph, "loss", OP_HEAD_LOSSES, "there must be 1 to %d heads, not %d",
                          GRAPH_HEADS_MAX, count);
    for (int i = 0; i < count; i++) {
        graph->heads[i] = heads[i];
        classes += heads[i].classes;
        target.extent[1] += heads[i].labels;
    }
    if (graph->tensors[logits].shape.extent[1] != classes)
        return layer_fail(graph, "loss", OP_HEAD_LOSSES,
                          "the heads have %lld classes, but the model has %lld outputs",
                          (long long)classes, (long long)graph->tensors[logits].shape.extent[1]);
    graph->head_count = count;
    graph->target = graph_append_tensor(graph, TENSOR_INPUT, TENSOR_INT32, &target, true, "target");
    inputs[1] = graph->target;
    layer_append_node(graph, OP_HEAD_LOSSES, "loss", inputs, 2, -1);
    graph->output = logits;
    return graph->error.code ? graph->error.code : logits;
}

/* Maximum, difference, exp, sum. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 4;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    (void)dy;
    differentiation_append(differentiation, node, OP_HEAD_LOSSES_BACKWARD, node->input, 2,
                           node->input, 1);
}

const struct graph_operator operator_head_losses = {
    .cost_class = COST_LOSS,
    .is_loss = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_head_losses_backward = {
    .cost_class = COST_LOSS,
    .flops = flops,
};
