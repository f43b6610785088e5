/* cost.c: see cost.h. */
#include "engine/graph/cost.h"

static const char *const cost_class_names[] = {
    [COST_LINEAR] = "linear",
    [COST_CONVOLUTION] = "convolution",
    [COST_POOLING] = "pooling",
    [COST_NORMALISATION] = "normalisation",
    [COST_ELEMENTWISE] = "elementwise",
    [COST_EMBEDDING] = "embedding",
    [COST_LOSS] = "loss",
    [COST_OPTIMIZER] = "optimizer",
};
DEFINE_STRING_TABLE(cost_class, enum cost_class, cost_class_names)

static double elements_of(const struct graph *graph, int32_t tensor)
{
    return tensor < 0 ? 0 : (double)graph_shape_elements(&graph->tensors[tensor].shape);
}

static double bytes_of(const struct graph *graph, int32_t tensor)
{
    return tensor < 0 ? 0
                      : elements_of(graph, tensor) * tensor_type_bytes(graph->tensors[tensor].type);
}

/* Multiply-adds of y = x * weight over all rows or pixels of y (and of both its gradients). */
static double product_flops(const struct graph *graph, int32_t y, int32_t weight)
{
    const struct graph_tensor *w = &graph->tensors[weight];

    return 2 * elements_of(graph, y) * elements_of(graph, weight) / (double)w->shape.extent[0];
}

/* The count of each activation's formula per element, forward and backward. */
static double activation_flops(enum activation_kind kind, bool backward)
{
    switch (kind) {
    case ACTIVATION_RELU:
        return 1;
    case ACTIVATION_SILU: /* x / (1 + exp(-x)); s * (1 + x * (1 - s)) */
        return backward ? 8 : 4;
    case ACTIVATION_GELU: /* x * Phi(x); Phi(x) + x * phi(x) */
        return backward ? 11 : 5;
    case ACTIVATION_TANH: /* dy * (1 - y * y) */
        return backward ? 3 : 1;
    case ACTIVATION_SIGMOID: /* dy * y * (1 - y) */
        return backward ? 3 : 3;
    case ACTIVATION_HARDSWISH: /* x * clamp(x + 3) / 6; dy * (x / 3 + 1 / 2) between -3 and 3 */
        return backward ? 5 : 5;
    case ACTIVATION_HARDSIGMOID: /* clamp(x + 3) / 6; dy / 6 between 0 and 1 */
        return backward ? 3 : 4;
    }
    return 0;
}

/* Operations per parameter of one update. */
static double optimizer_flops(const struct optimizer_config *config)
{
    double decay = config->weight_decay != 0 ? 2 : 0;

    switch (config->kind) {
    case OPTIMIZER_SGD:
        return 2 + decay + (config->momentum != 0 ? 2 : 0) + (config->nesterov ? 2 : 0);
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
        return 12 + decay;
    case OPTIMIZER_RMSPROP:
        return 8 + decay + (config->momentum != 0 ? 2 : 0);
    case OPTIMIZER_LION:
        return 8 + decay;
    case OPTIMIZER_ADAGRAD:
        return 6 + decay;
    case OPTIMIZER_ADADELTA:
        return 14 + decay;
    case OPTIMIZER_NADAM:
        return 15 + decay;
    case OPTIMIZER_MUON: /* products aside */
        return 8 + decay;
    }
    return 0;
}

/* The three products of each Newton-Schulz iteration. */
static double muon_flops(const struct graph *graph, const struct graph_node *node)
{
    const struct optimizer_config *config = &graph->groups[node->attributes.optimizer_group].config;
    const int64_t *extent = graph->tensors[node->input[0]].shape.extent;
    double rows = (double)extent[0], columns = (double)extent[1];
    double small = rows < columns ? rows : columns, large = rows < columns ? columns : rows;

    if (config->kind != OPTIMIZER_MUON)
        return 0;
    return config->iterations * 2 * small * small * (2 * large + small);
}

static enum cost_class class_of(enum graph_op op)
{
    switch (op) {
    case OP_LINEAR:
    case OP_LINEAR_BACKWARD_DATA:
    case OP_LINEAR_BACKWARD_WEIGHTS:
        return COST_LINEAR;
    case OP_CONV2D:
    case OP_CONV2D_BACKWARD_DATA:
    case OP_CONV2D_BACKWARD_WEIGHTS:
        return COST_CONVOLUTION;
    case OP_MAX_POOL2D:
    case OP_MAX_POOL2D_BACKWARD:
    case OP_AVERAGE_POOL2D:
    case OP_AVERAGE_POOL2D_BACKWARD:
        return COST_POOLING;
    case OP_BATCH_NORM:
    case OP_BATCH_NORM_APPLY:
    case OP_BATCH_NORM_BACKWARD:
        return COST_NORMALISATION;
    case OP_EMBEDDING:
    case OP_EMBEDDING_BACKWARD:
        return COST_EMBEDDING;
    case OP_CROSS_ENTROPY:
    case OP_CROSS_ENTROPY_BACKWARD:
    case OP_MSE:
    case OP_MSE_BACKWARD:
        return COST_LOSS;
    case OP_OPTIMIZER:
    case OP_MOVING_AVERAGE:
        return COST_OPTIMIZER;
    case OP_ACTIVATION:
    case OP_ACTIVATION_BACKWARD:
    case OP_DROPOUT:
    case OP_DROPOUT_BACKWARD:
    case OP_ADD:
    case OP_CHANNEL_SCALE:
    case OP_CHANNEL_SCALE_BACKWARD:
    case OP_RESHAPE:
    case OP_CAST:
    case OP_COUNT:
        break;
    }
    return COST_ELEMENTWISE;
}

static double node_flops(const struct graph *graph, const struct graph_node *node)
{
    const struct conv_attributes *window = &node->attributes.conv;
    const int32_t *in = node->input, *out = node->output;

    switch (node->op) {
    case OP_LINEAR:
    case OP_CONV2D:
        return product_flops(graph, out[0], in[1]) + (in[2] >= 0 ? elements_of(graph, out[0]) : 0);
    case OP_LINEAR_BACKWARD_DATA:
    case OP_CONV2D_BACKWARD_DATA:
        return product_flops(graph, in[0], in[1]);
    case OP_LINEAR_BACKWARD_WEIGHTS:
    case OP_CONV2D_BACKWARD_WEIGHTS:
        return product_flops(graph, in[1], out[0]) +
               (node->output_count > 1 ? elements_of(graph, in[1]) : 0);
    case OP_MAX_POOL2D:
    case OP_AVERAGE_POOL2D:
        return elements_of(graph, out[0]) * window->kernel[0] * window->kernel[1];
    case OP_AVERAGE_POOL2D_BACKWARD:
        return elements_of(graph, in[0]) * window->kernel[0] * window->kernel[1];
    case OP_MAX_POOL2D_BACKWARD:
        return elements_of(graph, in[0]);
    case OP_BATCH_NORM: /* training: mean, variance, then scale and shift */
        return elements_of(graph, in[0]) * (node->attributes.batch_norm.training ? 7 : 2);
    case OP_BATCH_NORM_APPLY:
        return elements_of(graph, in[0]) * 2;
    case OP_BATCH_NORM_BACKWARD: /* two sums, then dx from them */
        return elements_of(graph, in[0]) * 10;
    case OP_ACTIVATION:
    case OP_ACTIVATION_BACKWARD:
        return elements_of(graph, out[0]) *
               activation_flops(node->attributes.activation, node->op == OP_ACTIVATION_BACKWARD);
    case OP_EMBEDDING_BACKWARD:
        return elements_of(graph, in[1]);
    case OP_DROPOUT:
    case OP_DROPOUT_BACKWARD:
    case OP_ADD:
    case OP_CHANNEL_SCALE:
        return elements_of(graph, out[0]);
    case OP_CHANNEL_SCALE_BACKWARD: /* dx, and the sum of dy x */
        return elements_of(graph, out[0]) * 3;
    case OP_CROSS_ENTROPY: /* maximum, difference, exp, sum; probability times difference, sum */
    case OP_CROSS_ENTROPY_BACKWARD:
        return elements_of(graph, in[0]) * (graph->tensors[in[1]].type == TENSOR_FLOAT32 ? 6 : 4);
    case OP_MSE:
    case OP_MSE_BACKWARD:
        return elements_of(graph, in[0]) * 3;
    case OP_MOVING_AVERAGE:
        return elements_of(graph, in[0]) * 3;
    case OP_OPTIMIZER:
        return muon_flops(graph, node) +
               elements_of(graph, in[0]) *
                   optimizer_flops(&graph->groups[node->attributes.optimizer_group].config);
    case OP_EMBEDDING:
    case OP_RESHAPE:
    case OP_CAST:
    case OP_COUNT:
        break;
    }
    return 0;
}

static double node_bytes(const struct graph *graph, const struct graph_node *node)
{
    double bytes = 0;

    if (node->op == OP_EMBEDDING) /* reads the rows it needs, not the whole table */
        return bytes_of(graph, node->input[0]) + 2 * bytes_of(graph, node->output[0]);
    for (int i = 0; i < node->input_count; i++)
        bytes += bytes_of(graph, node->input[i]);
    for (int i = 0; i < node->output_count; i++)
        bytes += bytes_of(graph, node->output[i]);
    if (node->op == OP_MOVING_AVERAGE)
        bytes += bytes_of(graph, node->input[1]);
    if (node->op == OP_OPTIMIZER) /* writes parameter and states back */
        for (int i = 0; i < node->input_count; i++)
            bytes += i == 1 ? 0 : bytes_of(graph, node->input[i]);
    return bytes;
}

struct cost graph_node_cost(const struct graph *graph, const struct graph_node *node)
{
    if (node->op == OP_RESHAPE)
        return (struct cost){0};
    return (struct cost){
        .flops = node_flops(graph, node), .bytes = node_bytes(graph, node), .kernels = 1};
}

static void add_cost(struct cost *sum, const struct cost *cost)
{
    sum->flops += cost->flops;
    sum->bytes += cost->bytes;
    sum->kernels += cost->kernels;
}

void graph_cost_measure(const struct graph *graph, struct graph_cost *cost)
{
    *cost = (struct graph_cost){0};
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_PARAMETER)
            cost->parameters += graph_shape_elements(&graph->tensors[i].shape);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        struct cost own = graph_node_cost(graph, node);

        add_cost(&cost->cost[node->phase][class_of(node->op)], &own);
        if (node->recomputed)
            add_cost(&cost->recomputed, &own);
    }
}

struct cost graph_cost_total(const struct graph_cost *cost, unsigned phases)
{
    struct cost total = {0};

    for (int phase = 0; phase <= GRAPH_UPDATE; phase++)
        for (int kind = 0; kind < COST_CLASS_COUNT && (phases >> phase & 1); kind++)
            add_cost(&total, &cost->cost[phase][kind]);
    return total;
}
