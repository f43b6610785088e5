/* optimizer.c: the update part of a graph: one node per parameter with the state that its optimizer
 * keeps. The formulas are the backends'. */
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

#include <errno.h>

/* Names of the states that `config` needs, in the order of the node's inputs. */
static int optimizer_states(const struct optimizer_config *config, const char *states[2])
{
    int count = 0;

    switch (config->kind) {
    case OPTIMIZER_SGD:
        if (config->momentum != 0.0f)
            states[count++] = "momentum";
        break;
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW:
        states[count++] = "first_moment";
        states[count++] = "second_moment";
        break;
    case OPTIMIZER_RMSPROP:
        states[count++] = "second_moment";
        if (config->momentum != 0.0f)
            states[count++] = "momentum";
        break;
    case OPTIMIZER_LION:
        states[count++] = "momentum";
        break;
    }
    return count;
}

static void append_update(struct graph *graph, int32_t gradient, const char *const *states,
                          int state_count)
{
    int32_t parameter = graph->tensors[gradient].parameter, state[2];
    struct graph_tensor of = graph->tensors[parameter];
    struct graph_node *node;

    for (int i = 0; i < state_count; i++) {
        state[i] = graph_append_tensor(graph, TENSOR_OPTIMIZER, TENSOR_FLOAT32, &of.shape, false,
                                       "%s.%s", of.name, states[i]);
        if (state[i] >= 0)
            graph->tensors[state[i]].parameter = parameter;
    }
    node = graph_append_node(graph, OP_OPTIMIZER, GRAPH_UPDATE, of.name);
    if (!node)
        return;
    graph_node_input(node, parameter);
    graph_node_input(node, gradient);
    for (int i = 0; i < state_count; i++)
        graph_node_input(node, state[i]);
}

int graph_add_optimizer(struct graph *graph, const struct optimizer_config *config,
                        struct error *error)
{
    int32_t tensor_count = graph->tensor_count;
    const char *states[2];
    int state_count = optimizer_states(config, states);
    bool updated = false;

    if (config->kind == OPTIMIZER_SGD && config->nesterov &&
        (config->momentum <= 0.0f || config->dampening != 0.0f))
        graph_fail(graph, -EINVAL, "Nesterov momentum needs momentum above 0 and no dampening");
    for (int32_t i = 0; i < graph->node_count; i++)
        updated |= graph->nodes[i].phase == GRAPH_UPDATE;
    if (updated)
        graph_fail(graph, -EINVAL, "the graph has an optimizer already");
    graph->optimizer = *config;
    for (int32_t i = 0; i < tensor_count && !graph->error.code; i++) {
        int32_t gradient =
            graph->tensors[i].role == TENSOR_PARAMETER ? graph_gradient_of(graph, i) : -1;

        if (gradient >= 0)
            append_update(graph, gradient, states, state_count);
    }
    if (!graph->node_count || graph->nodes[graph->node_count - 1].phase != GRAPH_UPDATE)
        graph_fail(graph, -EINVAL, "the graph has no gradients for an optimizer to use");
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}
