/* carry_state.c: what a batch leaves to the next: the state of recurrent layers behind the last
 * step (recurrent.c). It is written when nothing reads the state before any more. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

static void append_carry(struct graph *graph, const char *name, int32_t value, int32_t state)
{
    struct graph_node *node = graph_append_node(
        graph, OP_CARRY_STATE, graph->training ? GRAPH_BACKWARD : GRAPH_FORWARD, name);

    if (!node)
        return;
    graph_node_input(node, value);
    graph_node_input(node, state);
}

int graph_carry_states(struct graph *graph, struct error *error)
{
    int32_t count = graph->node_count;

    for (int32_t i = 0; i < count && !graph->error.code; i++) {
        const struct graph_node node = graph->nodes[i]; /* a copy: the array moves */
        struct recurrent_results results;

        if (node.op != OP_RECURRENT || node.phase != GRAPH_FORWARD)
            continue;
        results = graph_recurrent_results(&node);
        if (results.last_h >= 0)
            append_carry(graph, node.name, results.last_h, node.input[RECURRENT_H0]);
        if (results.last_c >= 0)
            append_carry(graph, node.name, results.last_c, node.input[RECURRENT_C0]);
    }
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* Each row is a stream of its own, so a batch of fewer rows reads another text. */
const struct graph_operator operator_carry_state = {
    .cost_class = COST_ELEMENTWISE,
    .joins_samples = true,
};
