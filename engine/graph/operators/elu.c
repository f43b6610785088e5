/* elu.c: the exponential linear unit, as torch.nn.ELU (Clevert, Unterthiner and Hochreiter 2015,
 * arXiv:1511.07289), and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <math.h>

int32_t graph_elu(struct graph *graph, int32_t input, const char *name, float alpha)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_ELU, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (!isfinite(alpha))
        return layer_fail(graph, name, OP_ELU, "alpha is %g, which is no number", (double)alpha);
    shape = x->shape;
    node =
        layer_append_node(graph, OP_ELU, name, &input, 1, layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.elu_alpha = alpha;
    return graph->output;
}

/* A comparison, an exponential, a difference and a product. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * 4;
}

/* The gradient is computed from x: with a negative alpha, the sign of y does not tell that of x. */
static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[0]};

    differentiation_append(differentiation, node, OP_ELU_BACKWARD, inputs, 2, node->input, 1);
}

const struct graph_operator operator_elu = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_elu_backward = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops,
};
