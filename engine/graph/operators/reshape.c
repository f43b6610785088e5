/* reshape.c: the same numbers in another shape. */
#include "engine/graph/forward.h"
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

int32_t graph_reshape(struct graph *graph, int32_t input, const char *name, const int64_t *sample,
                      int rank)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_RESHAPE, TENSOR_FLOAT32);
    struct graph_shape shape = {.rank = rank + 1, .extent = {graph->batch}};
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];

    if (!x)
        return graph->error.code;
    if (rank < 1 || rank >= GRAPH_RANK_MAX)
        return layer_fail(graph, name, OP_RESHAPE, "a sample of %d dimensions is impossible", rank);
    for (int i = 0; i < rank; i++)
        shape.extent[i + 1] = sample[i];
    if (graph_shape_equal(&shape, &x->shape))
        return input;
    if (graph_shape_elements(&shape) != graph_shape_elements(&x->shape))
        return layer_fail(graph, name, OP_RESHAPE, "%s has not as many numbers as %s",
                          graph_shape_format(&shape, first, sizeof first),
                          graph_shape_format(&x->shape, second, sizeof second));
    if (x->shape.rank == 4 && rank == 3) /* no backend turns images into images at once */
        input = graph_flatten(graph, input, name);
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
