/* batch_norm.c: batch normalisation, as torch.nn.BatchNorm1d and BatchNorm2d, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_batch_norm(struct graph *graph, int32_t input, const char *name, float epsilon,
                         float momentum)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_BATCH_NORM, TENSOR_FLOAT32);
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS}, ones = {.kind = INITIALIZER_ONES};
    int32_t inputs[5] = {input}, mean = -1, inverse_std = -1;
    struct graph_shape result, channel;
    char text[SHAPE_TEXT_MAX];
    struct graph_node *node;
    bool learns;

    if (!x)
        return graph->error.code;
    if (x->shape.rank < 2)
        return layer_fail(graph, name, OP_BATCH_NORM,
                          "expects [batch, channels, …], but the input is %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    result = x->shape;
    channel = (struct graph_shape){.rank = 1, .extent = {result.extent[1]}};
    inputs[1] = layer_append_parameter(graph, name, "weight", TENSOR_PARAMETER, &channel, ones);
    inputs[2] = layer_append_parameter(graph, name, "bias", TENSOR_PARAMETER, &channel, zeros);
    inputs[3] =
        layer_append_parameter(graph, name, "running_mean", TENSOR_STATISTIC, &channel, zeros);
    inputs[4] =
        layer_append_parameter(graph, name, "running_var", TENSOR_STATISTIC, &channel, ones);
    if (graph->error.code)
        return graph->error.code;
    learns =
        graph->training && !(graph->tensors[inputs[1]].frozen && graph->tensors[inputs[2]].frozen);
    if (learns && graph_shape_elements(&result) == channel.extent[0])
        return layer_fail(graph, name, OP_BATCH_NORM,
                          "training needs more than one value per channel, but the input is %s; "
                          "use a larger batch",
                          graph_shape_format(&result, text, sizeof text));
    if (learns) {
        mean = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &channel, false,
                                   "%s.mean", name);
        inverse_std = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &channel, false,
                                          "%s.inverse_std", name);
    }
    node = layer_append_node(graph, OP_BATCH_NORM, name, inputs, 5,
                             layer_append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.batch_norm.epsilon = epsilon;
    node->attributes.batch_norm.momentum = momentum;
    node->attributes.batch_norm.training = learns;
    if (learns) {
        graph_node_output(graph, node, mean);
        graph_node_output(graph, node, inverse_std);
    }
    return graph->output;
}

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    (void)graph;
    return node->attributes.batch_norm.training ? "" : "inference";
}

/* In training: mean and variance, then scale and shift. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) *
           (node->attributes.batch_norm.training ? 7 : 2);
}

static double flops_apply(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 2;
}

/* Two sums, then dx from them. */
static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 10;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t x = node->input[0], weight = node->input[1], bias = node->input[2];
    const int32_t inputs[] = {x, dy, weight, node->output[1], node->output[2]};

    if (!node->attributes.batch_norm.training) { /* it is frozen */
        differentiation_append(differentiation, node, OP_BATCH_NORM_FROZEN_BACKWARD,
                               (int32_t[]){dy, weight, node->input[4]}, 3, &x, 1);
        return;
    }
    /* dx is always an output: the same pass computes it, and the order stays fixed */
    differentiation_append(differentiation, node, OP_BATCH_NORM_BACKWARD, inputs, 5,
                           (int32_t[]){x, weight, bias}, 3);
}

/* A repetition reads the moments of the first computation, because running statistics must be
 * updated only once. */
static const struct operator_repetition repetition = {OP_BATCH_NORM_APPLY, 3, 2};

const struct graph_operator operator_batch_norm = {
    .cost_class = COST_NORMALISATION,
    .is_cheap = true,
    .joins_samples = true,
    .repetition = &repetition,
    .flops = flops,
    .variant = variant,
    .differentiate = differentiate,
};

const struct graph_operator operator_batch_norm_apply = {
    .cost_class = COST_NORMALISATION,
    .flops = flops_apply,
};

/* dx = weight dy / sqrt(running_var + epsilon) */
const struct graph_operator operator_batch_norm_frozen_backward = {
    .cost_class = COST_NORMALISATION,
    .flops = flops_apply,
};

const struct graph_operator operator_batch_norm_backward = {
    .cost_class = COST_NORMALISATION,
    .flops = flops_backward,
};
