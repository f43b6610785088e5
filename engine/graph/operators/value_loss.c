/* value_loss.c: losses of values other than the mean squared error, as torch.nn.L1Loss, HuberLoss,
 * SmoothL1Loss and BCEWithLogitsLoss, the quantile loss (Koenker and Bassett 1978,
 * doi:10.2307/1913643), of one quantile or several, and 1 - cosine_similarity; and their
 * gradients. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <errno.h>

static const char *const value_loss_names[] = {
    [VALUE_LOSS_MAE] = "mae",
    [VALUE_LOSS_HUBER] = "huber",
    [VALUE_LOSS_QUANTILE] = "quantile",
    [VALUE_LOSS_BINARY] = "binary_cross_entropy",
    [VALUE_LOSS_COSINE] = "cosine",
    [VALUE_LOSS_SMOOTH_L1] = "smooth_l1",
    [VALUE_LOSS_QUANTILES] = "quantiles",
};
DEFINE_STRING_TABLE(value_loss, enum value_loss, value_loss_names)

static int check_quantile(struct graph *graph, float quantile)
{
    if (quantile > 0 && quantile < 1)
        return 0;
    return graph_fail(graph, -EINVAL, "the loss quantile needs a quantile between 0 and 1, not %g",
                      (double)quantile);
}

/* The numbers that the loss has for one prediction or several. */
static int check_numbers(struct graph *graph, const struct value_loss_config *config,
                         int64_t outputs)
{
    if (config->count < 0 || config->count > LOSS_NUMBERS_MAX)
        return graph_fail(graph, -EINVAL, "the loss has %d numbers, and the most are %d",
                          config->count, LOSS_NUMBERS_MAX);
    if (config->kind == VALUE_LOSS_QUANTILES && (!config->count || outputs % config->count != 0))
        return graph_fail(graph, -EINVAL,
                          "the model has %lld outputs, which %d quantiles do not divide",
                          (long long)outputs, config->count);
    if (config->kind == VALUE_LOSS_BINARY && config->count > 1 && config->count != outputs)
        return graph_fail(graph, -EINVAL,
                          "the loss binary_cross_entropy has %d weights, but there are %lld "
                          "labels; give one weight, or one for each label",
                          config->count, (long long)outputs);
    for (int i = 0; i < config->count; i++) {
        if (config->kind == VALUE_LOSS_QUANTILES && check_quantile(graph, config->numbers[i]))
            return graph->error.code;
        if (config->kind == VALUE_LOSS_BINARY && !(config->numbers[i] > 0))
            return graph_fail(graph, -EINVAL,
                              "the loss binary_cross_entropy needs weights above 0, not %g",
                              (double)config->numbers[i]);
    }
    return 0;
}

static int check(struct graph *graph, const struct value_loss_config *config, int64_t outputs)
{
    const enum value_loss kind = config->kind;
    const float parameter = config->parameter;

    if (kind == VALUE_LOSS_HUBER && !(parameter > 0))
        return graph_fail(graph, -EINVAL, "the loss huber needs a delta above 0, not %g",
                          (double)parameter);
    if (kind == VALUE_LOSS_SMOOTH_L1 && !(parameter > 0))
        return graph_fail(graph, -EINVAL, "the loss smooth_l1 needs a beta above 0, not %g",
                          (double)parameter);
    if (kind == VALUE_LOSS_QUANTILE && check_quantile(graph, parameter))
        return graph->error.code;
    return check_numbers(graph, config, outputs);
}

int32_t graph_value_loss(struct graph *graph, int32_t prediction,
                         const struct value_loss_config *config)
{
    int32_t inputs[2] = {prediction, -1};
    struct graph_shape shape;

    if (layer_prediction(graph, prediction, OP_VALUE_LOSS, "outputs"))
        return graph->error.code;
    shape = graph->tensors[prediction].shape;
    if (check(graph, config, shape.extent[1]))
        return graph->error.code;
    if (config->kind == VALUE_LOSS_QUANTILES)
        shape.extent[1] /= config->count;
    graph->value_loss = *config;
    graph->target =
        graph_append_tensor(graph, TENSOR_INPUT, TENSOR_FLOAT32, &shape, true, "target");
    inputs[1] = graph->target;
    layer_append_node(graph, OP_VALUE_LOSS, "loss", inputs, 2, -1);
    graph->output = prediction;
    return graph->error.code ? graph->error.code : prediction;
}

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    (void)node;
    return value_loss_to_string(graph->value_loss.kind);
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
