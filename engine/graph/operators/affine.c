/* affine.c: scale x + offset with constants, which is its own gradient with the offset 0. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_affine(struct graph *graph, int32_t input, float scale, float offset,
                     const char *name)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_AFFINE, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    node = layer_append_node(graph, OP_AFFINE, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.affine.scale = scale;
    node->attributes.affine.offset = offset;
    return graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * 2;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    struct graph_node back = *node;

    back.attributes.affine.offset = 0;
    differentiation_append(differentiation, &back, OP_AFFINE, &dy, 1, node->input, 1);
}

const struct graph_operator operator_affine = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};
