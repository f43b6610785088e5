/* slice.c: columns of rows, as torch.narrow along the last axis, and the gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_slice(struct graph *graph, int32_t input, int64_t first, int64_t count,
                    const char *name)
{
    const struct graph_tensor *x = layer_rows(graph, input, name, OP_SLICE);
    struct graph_shape shape;
    struct graph_node *node;
    int64_t columns;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    columns = shape.extent[shape.rank - 1];
    if (first < 0 || count < 1 || first > columns || count > columns - first)
        return layer_fail(graph, name, OP_SLICE, "columns %lld to %lld are not in rows of %lld",
                          (long long)first, (long long)(first + count - 1), (long long)columns);
    shape.extent[shape.rank - 1] = count;
    node = layer_append_node(graph, OP_SLICE, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.slice_first = first;
    return graph->output;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_SLICE_BACKWARD, &dy, 1, node->input, 1);
}

/* It reads the columns that it needs alone. */
static double bytes(const struct graph *graph, const struct graph_node *node)
{
    return 2 * graph_tensor_bytes(graph, node->output[0]);
}

const struct graph_operator operator_slice = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .bytes = bytes,
    .differentiate = differentiate,
};

const struct graph_operator operator_slice_backward = {
    .cost_class = COST_ELEMENTWISE,
};
