/* mask_steps.c: lets what lies behind the end of a sequence be 0, so that the padding behind it has
 * no part in what a convolution makes of its last steps. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_mask_steps(struct graph *graph, int32_t input, int32_t lengths, const char *name)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, OP_MASK_STEPS);
    const int32_t inputs[] = {input, lengths};
    struct graph_shape shape;

    if (!x || lengths < 0)
        return x ? input : graph->error.code;
    shape = x->shape;
    layer_append_node(graph, OP_MASK_STEPS, name, inputs, 2,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_MASK_STEPS, (int32_t[]){dy, node->input[1]}, 2,
                           node->input, 1);
}

const struct graph_operator operator_mask_steps = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .is_cheap = true,
    .differentiate = differentiate,
};
