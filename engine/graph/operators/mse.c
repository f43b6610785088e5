/* mse.c: the mean of the squared differences, as torch.nn.functional.mse_loss, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_mse(struct graph *graph, int32_t prediction)
{
    int32_t inputs[2] = {prediction, -1};
    struct graph_shape shape;

    if (layer_prediction(graph, prediction, OP_MSE, "outputs"))
        return graph->error.code;
    shape = graph->tensors[prediction].shape;
    graph->target =
        graph_append_tensor(graph, TENSOR_INPUT, TENSOR_FLOAT32, &shape, true, "target");
    inputs[1] = graph->target;
    layer_append_node(graph, OP_MSE, "loss", inputs, 2, -1);
    graph->output = prediction;
    return graph->error.code ? graph->error.code : prediction;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 3;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    (void)dy;
    differentiation_append(differentiation, node, OP_MSE_BACKWARD, node->input, 2, node->input, 1);
}

const struct graph_operator operator_mse = {
    .cost_class = COST_LOSS,
    .is_loss = true,
    .predicts_values = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_mse_backward = {
    .cost_class = COST_LOSS,
    .flops = flops,
};
