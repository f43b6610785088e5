/* add.c: the sum of two tensors of the same shape. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_add(struct graph *graph, int32_t a, int32_t b, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, a, name, OP_ADD, TENSOR_FLOAT32);
    const struct graph_tensor *y = layer_input(graph, b, name, OP_ADD, TENSOR_FLOAT32);
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    int32_t inputs[2] = {a, b};
    struct graph_shape shape;

    if (!x || !y)
        return graph->error.code;
    if (!graph_shape_equal(&x->shape, &y->shape))
        return layer_fail(graph, name, OP_ADD, "the shapes %s and %s differ",
                          graph_shape_format(&x->shape, first, sizeof first),
                          graph_shape_format(&y->shape, second, sizeof second));
    shape = x->shape;
    layer_append_node(graph, OP_ADD, name, inputs, 2, layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]);
}

/* The gradient of both summands is dy itself. */
static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    for (int i = 0; i < 2; i++)
        if (differentiation_needs(differentiation, node->input[i]))
            differentiation_give(differentiation, node->input[i], dy);
}

/* Not marked as cheap to recompute: along a chain of residual blocks, each sum would need the one
 * before it, and all would be alive at once. */
const struct graph_operator operator_add = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .flops = flops,
    .differentiate = differentiate,
};
