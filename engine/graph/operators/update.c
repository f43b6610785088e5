/* update.c: the update of a parameter (engine/graph/optimizer.c appends it). */
#include "engine/graph/operators/operators.h"

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

static const struct optimizer_config *config_of(const struct graph *graph,
                                                const struct graph_node *node)
{
    return &graph->groups[node->attributes.optimizer_group].config;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return muon_flops(graph, node) +
           graph_tensor_elements(graph, node->input[0]) * optimizer_flops(config_of(graph, node));
}

/* Writes parameter and states back. */
static double bytes(const struct graph *graph, const struct graph_node *node)
{
    double bytes = graph_node_bytes(graph, node);

    for (int i = 0; i < node->input_count; i++)
        bytes += i == 1 ? 0 : graph_tensor_bytes(graph, node->input[i]);
    return bytes;
}

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    return optimizer_kind_to_string(config_of(graph, node)->kind);
}

const struct graph_operator operator_optimizer = {
    .cost_class = COST_OPTIMIZER,
    .flops = flops,
    .bytes = bytes,
    .variant = variant,
};
