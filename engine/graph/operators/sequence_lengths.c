/* sequence_lengths.c: how long the sequences of symbols are that a padding symbol fills up, and
 * behind convolutions and pools. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_sequence_lengths(struct graph *graph, int32_t input, const char *name,
                               int32_t padding)
{
    const struct graph_tensor *x =
        layer_input(graph, input, name, OP_SEQUENCE_LENGTHS, TENSOR_INT32);
    const struct graph_shape shape = {.rank = 1, .extent = {graph->batch}};
    char text[SHAPE_TEXT_MAX];
    struct graph_node *node;
    int32_t lengths;

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 2)
        return layer_fail(graph, name, OP_SEQUENCE_LENGTHS,
                          "expects [batch, steps], but the input is %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    lengths = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_INT32, &shape, true, "%s.output",
                                  name);
    node = layer_append_node(graph, OP_SEQUENCE_LENGTHS, name, &input, 1, lengths);
    if (node)
        node->attributes.padding_symbol = padding;
    return graph->error.code ? graph->error.code : lengths;
}

const struct graph_operator operator_sequence_lengths = {
    .cost_class = COST_EMBEDDING,
    .is_cheap = true,
};

int32_t graph_window_lengths(struct graph *graph, int32_t lengths, const char *name,
                             const struct window_lengths *windows)
{
    const struct graph_tensor *x =
        layer_input(graph, lengths, name, OP_WINDOW_LENGTHS, TENSOR_INT32);
    const struct graph_shape shape = {.rank = 1, .extent = {graph->batch}};
    struct graph_node *node;
    int32_t result;

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 1 || windows->stride < 1)
        return layer_fail(graph, name, OP_WINDOW_LENGTHS,
                          "needs the lengths of sequences and a stride of at least 1");
    result = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_INT32, &shape, true, "%s.output",
                                 name);
    node = layer_append_node(graph, OP_WINDOW_LENGTHS, name, &lengths, 1, result);
    if (node)
        node->attributes.windows = *windows;
    return graph->error.code ? graph->error.code : result;
}

const struct graph_operator operator_window_lengths = {
    .cost_class = COST_EMBEDDING,
    .is_cheap = true,
};
