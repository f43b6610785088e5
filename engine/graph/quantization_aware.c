/* quantization_aware.c: makes a graph for training or evaluation round what the layers of its
 * quantized form will hold as integers: graph_make_quantization_aware() before the graph is
 * differentiated, which marks the weights, and graph_round_weights() behind. The gradient by a
 * rounded weight is that by the weight: the range is the row's own, so nothing is cut. */
#include "base/memory.h"
#include "engine/graph/build.h"
#include "engine/graph/operator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights --------------------------------------------------------------------------------- */

struct rounding {
    struct graph *graph;
    int32_t *rounded; /* per tensor: its rounded copy, or -1 */
};

static int32_t append_copy(struct graph *graph, enum graph_op op, const struct graph_node *reader,
                           int32_t from, const char *suffix)
{
    struct graph_tensor of = graph->tensors[from];
    int32_t to = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &of.shape, false,
                                     "%.80s.%s", of.name, suffix);
    struct graph_node *node =
        to < 0 ? NULL : graph_append_node(graph, op, reader->phase, reader->name);

    if (!node)
        return from;
    graph_node_input(node, from);
    graph_node_output(graph, node, to);
    return to;
}

/* The rounded copy of a weight, made before its first reader. Backends choose the layout of the
 * weight and that of the copy, so the rows are rounded between two casts, in PyTorch's layout. */
static int32_t round_weight(struct rounding *rounding, int32_t weight,
                            const struct graph_node *reader)
{
    struct graph *graph = rounding->graph;
    int32_t plain, rows;

    if (weight < 0 || !graph->tensors[weight].rounds_to_int8)
        return weight;
    if (rounding->rounded[weight] < 0) {
        plain = append_copy(graph, OP_CAST, reader, weight, "plain");
        rows = append_copy(graph, OP_FAKE_QUANTIZE_ROWS, reader, plain, "rows");
        rounding->rounded[weight] = append_copy(graph, OP_CAST, reader, rows, "rounded");
    }
    return rounding->rounded[weight];
}

static bool reads_weight(const struct graph_node *node)
{
    enum product_pass pass = graph_node_operator(node)->product;

    return pass == PRODUCT_FORWARD || pass == PRODUCT_BACKWARD_DATA;
}

static void round_nodes(struct rounding *rounding, const struct graph_node *nodes, int32_t count)
{
    struct graph *graph = rounding->graph;

    for (int32_t i = 0; i < count; i++) {
        struct graph_node node = nodes[i], *appended;

        if (reads_weight(&node))
            node.input[1] = round_weight(rounding, node.input[1], &nodes[i]);
        appended = graph_append_node(graph, node.op, node.phase, node.name);
        if (!appended)
            return;
        *appended = node;
        for (int k = 0; k < node.output_count; k++)
            if (!(node.adds >> k & 1))
                graph->tensors[node.output[k]].producer = graph->node_count - 1;
    }
}

int graph_round_weights(struct graph *graph, struct error *error)
{
    struct rounding rounding = {.graph = graph};
    int32_t count = graph->node_count, tensors = graph->tensor_count, marked = 0;
    struct graph_node *nodes = graph->nodes;

    for (int32_t i = 0; i < tensors; i++)
        marked += graph->tensors[i].rounds_to_int8;
    if (marked && !graph->error.code) {
        rounding.rounded = memory_allocate((size_t)tensors * sizeof *rounding.rounded);
        for (int32_t i = 0; i < tensors; i++)
            rounding.rounded[i] = -1;
        graph->nodes = NULL;
        graph->node_count = graph->node_capacity = 0;
        round_nodes(&rounding, nodes, count);
        free(nodes);
        free(rounding.rounded);
    }
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Marks the weights of linear layers, whose operands are rounded by row: they are quantized while
 * the layer runs. Returns how many. */
static int round_linear_layers(struct graph *graph)
{
    int32_t count = graph->node_count, output = graph->output;
    struct graph_node *nodes = memory_allocate((size_t)count * sizeof *nodes + 1);
    int layers = 0;

    if (count) /* a model may give what it reads */
        memcpy(nodes, graph->nodes, (size_t)count * sizeof *nodes);
    for (int32_t i = 0; i < count; i++)
        if (nodes[i].op == OP_LINEAR && graph_weight_can_be_int8(graph, nodes[i].input[1])) {
            graph->tensors[nodes[i].input[1]].rounds_to_int8 = true;
            layers++;
        }
    graph->node_count = 0;
    for (int32_t i = 0; i < count && !graph->error.code; i++) {
        if (nodes[i].op == OP_LINEAR && graph->tensors[nodes[i].input[1]].rounds_to_int8)
            nodes[i].input[0] = graph_fake_quantize_rows(graph, nodes[i].input[0], nodes[i].name);
        graph_append_copy(graph, &nodes[i]);
    }
    graph->output = output;
    free(nodes);
    return layers;
}

int graph_make_quantization_aware(struct graph *graph, struct error *error)
{
    int layers = graph->error.code ? 0 : graph_fake_quantize_convolutions(graph);

    if (!graph->error.code)
        layers += round_linear_layers(graph);
    if (!graph->error.code && !layers)
        graph_fail(graph, -EINVAL,
                   "the model has no linear layer or convolution of its own that could be "
                   "quantized: leave train.quantization_aware out");
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}
