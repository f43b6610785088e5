/* function.c: a function of each number, as torch.exp, log, sqrt, reciprocal, sin, cos, erf and
 * pow, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <math.h>

static const char *const number_function_names[] = {
    [FUNCTION_EXP] = "exp",   [FUNCTION_LOG] = "log",
    [FUNCTION_SQRT] = "sqrt", [FUNCTION_RECIPROCAL] = "reciprocal",
    [FUNCTION_SIN] = "sin",   [FUNCTION_COS] = "cos",
    [FUNCTION_ERF] = "erf",   [FUNCTION_POWER] = "power",
};
DEFINE_STRING_TABLE(number_function, enum number_function, number_function_names)

int32_t graph_function(struct graph *graph, int32_t input,
                       const struct function_attributes *function, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_FUNCTION, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (function->kind == FUNCTION_POWER && !isfinite(function->exponent))
        return layer_fail(graph, name, OP_FUNCTION, "the exponent %g is no number",
                          (double)function->exponent);
    shape = x->shape;
    node = layer_append_node(graph, OP_FUNCTION, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.function = *function;
    return graph->output;
}

/* About as many as the vectors' polynomials take. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * 10;
}

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    (void)graph;
    return number_function_to_string(node->attributes.function.kind);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[0]};

    differentiation_append(differentiation, node, OP_FUNCTION_BACKWARD, inputs, 2, node->input, 1);
}

const struct graph_operator operator_function = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .is_cheap = true,
    .flops = flops,
    .variant = variant,
    .differentiate = differentiate,
};

const struct graph_operator operator_function_backward = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops,
    .variant = variant,
};
