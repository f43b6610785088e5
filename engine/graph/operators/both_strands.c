/* both_strands.c: a sequence of nucleotides, and behind it its reverse complement: the other strand
 * as it is read. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <string.h>

int32_t graph_both_strands(struct graph *graph, int32_t input, const uint8_t *complement,
                           int symbols, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_BOTH_STRANDS, TENSOR_INT32);
    char text[SHAPE_TEXT_MAX];
    struct graph_shape shape;
    struct graph_node *node;
    int32_t result;

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 2)
        return layer_fail(graph, name, OP_BOTH_STRANDS,
                          "expects [batch, time], but the input is %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    if (symbols < 1 || symbols > COMPLEMENT_SYMBOLS_MAX)
        return layer_fail(graph, name, OP_BOTH_STRANDS, "%d symbols; it takes 1 to %d", symbols,
                          COMPLEMENT_SYMBOLS_MAX);
    shape = x->shape;
    shape.extent[1] *= 2;
    result = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_INT32, &shape, true, "%s.output",
                                 name);
    node = layer_append_node(graph, OP_BOTH_STRANDS, name, &input, 1, result);
    if (!node)
        return graph->error.code;
    memcpy(node->attributes.complement.of, complement, (size_t)symbols);
    node->attributes.complement.symbols = (uint8_t)symbols;
    return graph->output;
}

const struct graph_operator operator_both_strands = {
    .cost_class = COST_EMBEDDING,
    .is_cheap = true,
};
