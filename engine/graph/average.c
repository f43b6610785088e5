/* average.c: appends moving averages of weights and statistics. Evaluation reads these instead of
 * the weights. */
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <string.h>

static const char average_suffix[] = ".average";

static bool is_averaged(const struct graph_tensor *tensor)
{
    return tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_STATISTIC;
}

/* The update of the parameter; NULL: there is none. */
static const struct graph_node *update_of(const struct graph *graph, int32_t parameter)
{
    for (int32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == OP_OPTIMIZER && graph->nodes[i].input[0] == parameter)
            return &graph->nodes[i];
    return NULL;
}

/* What is averaged: the parameter, or the state of an optimizer that averages itself. */
static int32_t averaged_tensor(const struct graph *graph, int32_t tensor)
{
    const struct graph_node *update = update_of(graph, tensor);

    if (!update ||
        !optimizer_of(&graph->groups[update->attributes.optimizer_group].config)->averages_itself)
        return tensor;
    return update->input[2];
}

static void append_average(struct graph *graph, int32_t tensor)
{
    struct graph_tensor of = graph->tensors[tensor];
    int32_t average = graph_append_tensor(graph, TENSOR_AVERAGE, TENSOR_FLOAT32, &of.shape, false,
                                          "%s%s", of.name, average_suffix);
    struct graph_node *node;

    if (average < 0)
        return;
    graph->tensors[average].parameter = tensor;
    node = graph_append_node(graph, OP_MOVING_AVERAGE, GRAPH_UPDATE, of.name);
    if (!node)
        return;
    node->attributes.copies =
        of.role == TENSOR_STATISTIC &&
        (optimizer_of(&graph->groups[0].config)->averages_itself ||
         strncmp(of.name, GRAPH_RANGE_PREFIX, sizeof GRAPH_RANGE_PREFIX - 1) == 0);
    graph_node_input(node, averaged_tensor(graph, tensor));
    graph_node_input(node, average);
}

int graph_add_averages(struct graph *graph, struct error *error)
{
    int32_t count = graph->tensor_count;

    if (!graph->group_count)
        graph_fail(graph, -EINVAL, "averages need an optimizer before them");
    for (int32_t i = 0; i < count && !graph->error.code; i++)
        if (is_averaged(&graph->tensors[i]))
            append_average(graph, i);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

int graph_read_averages(struct graph *graph, struct error *error)
{
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        struct graph_tensor *tensor = &graph->tensors[i];

        if (!is_averaged(tensor))
            continue;
        if (strlen(tensor->name) + sizeof average_suffix > sizeof tensor->name)
            return error_set(error, -EINVAL, "the name %s is too long", tensor->name);
        strcat(tensor->name, average_suffix);
    }
    return 0;
}
