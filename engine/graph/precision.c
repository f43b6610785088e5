/* precision.c: graph_lower_precision(): inserts casts before the operands of products. It is a pass
 * over the finished forward and backward part, so that neither the builders nor the differentiation
 * have to know of it. */
#include "engine/graph/build.h"
#include "engine/graph/operator.h"

#include <errno.h>
#include <stdlib.h>

struct lowering {
    struct graph *graph;
    enum tensor_type type;
    int32_t *low; /* per tensor: its rounded copy, or -1 */
};

/* The two operands of a product are its first inputs. The third one, a bias, is only added. */
enum { PRODUCT_OPERANDS = 2 };

/* The rounded copy of `tensor`. It is made before `node`, its first reader, unless it exists. */
static int32_t lower_tensor(struct lowering *lowering, int32_t tensor,
                            const struct graph_node *node)
{
    struct graph *graph = lowering->graph;
    struct graph_tensor of = graph->tensors[tensor];
    struct graph_node *cast;
    int32_t low;

    if (lowering->low[tensor] >= 0)
        return lowering->low[tensor];
    low = graph_append_tensor(graph, TENSOR_ACTIVATION, lowering->type, &of.shape, of.batched,
                              "%s.%s", of.name, tensor_type_to_string(lowering->type));
    cast = low < 0 ? NULL : graph_append_node(graph, OP_CAST, node->phase, node->name);
    if (!cast)
        return tensor;
    graph_node_input(cast, tensor);
    graph_node_output(graph, cast, low);
    lowering->low[tensor] = low;
    return low;
}

/* Appends the nodes anew, with casts between them. */
static void lower_nodes(struct lowering *lowering, const struct graph_node *nodes, int32_t count)
{
    struct graph *graph = lowering->graph;

    for (int32_t i = 0; i < count; i++) {
        bool product = graph_node_operator(&nodes[i])->product != PRODUCT_NONE;
        struct graph_node node = nodes[i], *appended;

        for (int k = 0; product && k < PRODUCT_OPERANDS; k++)
            node.input[k] = lower_tensor(lowering, node.input[k], &nodes[i]);
        appended = graph_append_node(graph, node.op, node.phase, node.name);
        if (!appended)
            return;
        *appended = node;
        for (int k = 0; k < node.output_count; k++)
            if (!(node.adds >> k & 1))
                graph->tensors[node.output[k]].producer = graph->node_count - 1;
    }
}

static int check_lowering(struct graph *graph, enum tensor_type type)
{
    if (graph->error.code)
        return graph->error.code;
    if (type != TENSOR_FLOAT32 && type != TENSOR_BFLOAT16 && type != TENSOR_FLOAT16 &&
        type != TENSOR_TF32)
        return graph_fail(graph, -EINVAL, "products cannot be calculated in %s",
                          tensor_type_to_string(type));
    if (graph->compute_type != TENSOR_FLOAT32)
        return graph_fail(graph, -EINVAL, "the graph calculates in %s already",
                          tensor_type_to_string(graph->compute_type));
    if (graph->node_count && graph->nodes[graph->node_count - 1].phase == GRAPH_UPDATE)
        return graph_fail(graph, -EINVAL, "the precision is chosen before the optimizer is added");
    return 0;
}

int graph_lower_precision(struct graph *graph, enum tensor_type type, struct error *error)
{
    struct lowering lowering = {.graph = graph, .type = type};
    struct graph_node *nodes = graph->nodes;
    int32_t count = graph->node_count, tensors = graph->tensor_count;

    if (check_lowering(graph, type))
        return error_set(error, graph->error.code, "%s", graph->error.text);
    if (type == TENSOR_FLOAT32 || type == TENSOR_TF32) {
        graph->compute_type = type; /* there is nothing to cast */
        return 0;
    }
    lowering.low = malloc(((size_t)tensors + 1) * sizeof *lowering.low);
    if (!lowering.low)
        return error_set(error, graph_fail(graph, -ENOMEM, "no memory for the graph's casts"), "%s",
                         graph->error.text);
    for (int32_t i = 0; i < tensors; i++)
        lowering.low[i] = -1;
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;
    lower_nodes(&lowering, nodes, count);
    graph->compute_type = type;
    free(nodes);
    free(lowering.low);
    if (graph->error.code)
        return error_set(error, graph->error.code, "%s", graph->error.text);
    return 0;
}
