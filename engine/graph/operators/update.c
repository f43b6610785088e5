/* update.c: the update of a parameter (engine/graph/optimizer.c appends it). */
#include "engine/graph/operators/operators.h"
#include "engine/graph/optimizer.h"

static const struct optimizer_config *config_of(const struct graph *graph,
                                                const struct graph_node *node)
{
    return &graph->groups[node->attributes.optimizer_group].config;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_shape *shape = &graph->tensors[node->input[0]].shape;
    double rows = shape->rank ? (double)shape->extent[0] : 1;

    return optimizer_flops(config_of(graph, node), rows,
                           graph_tensor_elements(graph, node->input[0]) / rows);
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
