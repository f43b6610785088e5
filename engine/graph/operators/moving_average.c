/* moving_average.c: the average of a parameter over its updates (engine/graph/average.c appends
 * it). */
#include "engine/graph/operators/operators.h"

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 3;
}

/* Writes the average back. */
static double bytes(const struct graph *graph, const struct graph_node *node)
{
    return graph_node_bytes(graph, node) + graph_tensor_bytes(graph, node->input[1]);
}

const struct graph_operator operator_moving_average = {
    .cost_class = COST_OPTIMIZER,
    .flops = flops,
    .bytes = bytes,
};
