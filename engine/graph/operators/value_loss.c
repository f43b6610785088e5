/* value_loss.c: losses of values other than the mean squared error, as torch.nn.L1Loss, HuberLoss
 * and BCEWithLogitsLoss, the quantile loss (Koenker and Bassett 1978, doi:10.2307/1913643) and
 * 1 - cosine_similarity; and their gradients. */
#include "engine/graph/operators/operators.h"

#include <errno.h>

static const char *const value_loss_names[] = {
    [VALUE_LOSS_MAE] = "mae",           [VALUE_LOSS_HUBER] = "huber",
    [VALUE_LOSS_QUANTILE] = "quantile", [VALUE_LOSS_BINARY] = "binary_cross_entropy",
    [VALUE_LOSS_COSINE] = "cosine",
};
DEFINE_STRING_TABLE(value_loss, enum value_loss, value_loss_names)

static int check(struct graph *graph, enum value_loss kind, float parameter)
{
    if (kind == VALUE_LOSS_HUBER && !(parameter > 0))
        return graph_fail(graph, -EINVAL, "the loss huber needs a delta above 0, not %g",
                          (double)parameter);
    if (kind == VALUE_LOSS_QUANTILE && !(parameter > 0 && parameter < 1))
        return graph_fail(graph, -EINVAL,
                          "the loss quantile needs a quantile between 0 and 1, not %g",
                          (double)parameter);
    return 0;
}

int32_t graph_value_loss(struct graph *graph, int32_t prediction, enum value_loss kind,
                         float parameter)
{
    int32_t inputs[2] = {prediction, -1};
    struct graph_shape shape;
    struct graph_node *node;

    if (layer_prediction(graph, prediction, OP_VALUE_LOSS, "outputs") ||
        check(graph, kind, parameter))
        return graph->error.code;
    shape = graph->tensors[prediction].shape;
    graph->target =
        graph_append_tensor(graph, TENSOR_INPUT, TENSOR_FLOAT32, &shape, true, "target");
    inputs[1] = graph->target;
    node = layer_append_node(graph, OP_VALUE_LOSS, "loss", inputs, 2, -1);
    if (!node)
        return graph->error.code;
    node->attributes.value_loss.kind = kind;
    node->attributes.value_loss.parameter = parameter;
    graph->output = prediction;
    return prediction;
}

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    (void)graph;
    return value_loss_to_string(node->attributes.value_loss.kind);
}

/* A few operations for each value. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 4;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    (void)dy;
    differentiation_append(differentiation, node, OP_VALUE_LOSS_BACKWARD, node->input, 2,
                           node->input, 1);
}

const struct graph_operator operator_value_loss = {
    .cost_class = COST_LOSS,
    .is_loss = true,
    .predicts_values = true,
    .flops = flops,
    .variant = variant,
    .differentiate = differentiate,
};

const struct graph_operator operator_value_loss_backward = {
    .cost_class = COST_LOSS,
    .flops = flops,
    .variant = variant,
};
