/* cost.c: see cost.h. The cost of a node is in the descriptor of its operator. */
#include "engine/graph/cost.h"

#include "engine/graph/operators/operators.h"

struct cost graph_node_cost(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_operator *descriptor = graph_node_operator(node);

    if (descriptor->is_free)
        return (struct cost){0};
    return (struct cost){
        .flops = descriptor->flops ? descriptor->flops(graph, node) : 0,
        .bytes = (descriptor->bytes ? descriptor->bytes : graph_node_bytes)(graph, node),
        .kernels = 1};
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

        add_cost(&cost->cost[node->phase][graph_node_operator(node)->cost_class], &own);
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
