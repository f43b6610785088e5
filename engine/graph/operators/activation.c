/* activation.c: functions of one number that are applied to each element, and their derivatives. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_activation(struct graph *graph, int32_t input, const char *name,
                         enum activation_kind kind)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_ACTIVATION, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    node = layer_append_node(graph, OP_ACTIVATION, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.activation = kind;
    return graph->output;
}

static const char *const activation_kind_names[] = {
    [ACTIVATION_RELU] = "relu",
    [ACTIVATION_SILU] = "silu",
    [ACTIVATION_GELU] = "gelu",
    [ACTIVATION_TANH] = "tanh",
    [ACTIVATION_SIGMOID] = "sigmoid",
    [ACTIVATION_HARDSWISH] = "hardswish",
    [ACTIVATION_HARDSIGMOID] = "hardsigmoid",
    [ACTIVATION_RELU6] = "relu6",
    [ACTIVATION_GELU_TANH] = "gelu_tanh",
    [ACTIVATION_MISH] = "mish",
    [ACTIVATION_SOFTPLUS] = "softplus",
};
DEFINE_STRING_TABLE(activation_kind, enum activation_kind, activation_kind_names)

/* Whether the derivative is computed from the operand, because the result does not determine it;
 * and the operations of the formula and of its derivative, for each element. */
static const struct {
    bool saves_operand;
    int flops, flops_backward;
} activations[] = {
    [ACTIVATION_RELU] = {false, 1, 1},
    [ACTIVATION_SILU] = {true, 4, 8},         /* x / (1 + exp(-x)); s (1 + x (1 - s)) */
    [ACTIVATION_GELU] = {true, 5, 11},        /* x Phi(x); Phi(x) + x phi(x) */
    [ACTIVATION_TANH] = {false, 1, 3},        /* dy (1 - y y) */
    [ACTIVATION_SIGMOID] = {false, 3, 3},     /* dy y (1 - y) */
    [ACTIVATION_HARDSWISH] = {true, 5, 5},    /* x clamp(x + 3) / 6; dy (x / 3 + 1 / 2) within */
    [ACTIVATION_HARDSIGMOID] = {false, 4, 3}, /* clamp(x + 3) / 6; dy / 6 between 0 and 1 */
    [ACTIVATION_RELU6] = {false, 2, 2},
    [ACTIVATION_GELU_TANH] = {true, 9, 16}, /* x sigmoid(2u(x)); s + 2 x s (1 - s) u' */
    [ACTIVATION_MISH] = {true, 5, 12},      /* x n / (n + 2), n = e^x (e^x + 2) */
    [ACTIVATION_SOFTPLUS] = {true, 3, 3},
};

static const char *variant(const struct graph *graph, const struct graph_node *node)
{
    (void)graph;
    return activation_kind_to_string(node->attributes.activation);
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) *
           activations[node->attributes.activation].flops;
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) *
           activations[node->attributes.activation].flops_backward;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    bool saves_operand = activations[node->attributes.activation].saves_operand;
    const int32_t inputs[] = {dy, saves_operand ? node->input[0] : node->output[0]};

    differentiation_append(differentiation, node, OP_ACTIVATION_BACKWARD, inputs, 2, node->input,
                           1);
}

const struct graph_operator operator_activation = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .is_cheap = true,
    .flops = flops,
    .variant = variant,
    .differentiate = differentiate,
};

/* dx takes the place of dy, not that of the saved tensor. */
const struct graph_operator operator_activation_backward = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops_backward,
    .variant = variant,
};
