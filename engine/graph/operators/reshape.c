/* reshape.c: the same numbers in another shape. */
#include "engine/graph/operators/operators.h"

int32_t graph_flatten(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_RESHAPE, TENSOR_FLOAT32);
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    if (x->shape.rank == 2)
        return input;
    shape = (struct graph_shape){
        .rank = 2, .extent = {graph->batch, graph_shape_elements(&x->shape) / graph->batch}};
    layer_append_node(graph, OP_RESHAPE, name, &input, 1, layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_RESHAPE, &dy, 1, node->input, 1);
}

const struct graph_operator operator_reshape = {
    .cost_class = COST_ELEMENTWISE,
    .is_view = true,
    .is_free = true,
    .is_cheap = true,
    .differentiate = differentiate,
};
