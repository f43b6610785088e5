/* leaky_relu.c: ReLU with a slope below zero, as torch.nn.LeakyReLU (Maas, Hannun and Ng 2013,
 * "Rectifier nonlinearities improve neural network acoustic models"), and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <math.h>

int32_t graph_leaky_relu(struct graph *graph, int32_t input, const char *name, float negative_slope)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_LEAKY_RELU, TENSOR_FLOAT32);
    struct graph_shape shape;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (!isfinite(negative_slope))
        return layer_fail(graph, name, OP_LEAKY_RELU, "the negative slope %g is no number",
                          (double)negative_slope);
    shape = x->shape;
    node = layer_append_node(graph, OP_LEAKY_RELU, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.negative_slope = negative_slope;
    return graph->output;
}

/* A comparison and a product. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * 2;
}

/* The gradient is computed from x: with a negative slope, the sign of y does not tell that of x. */
static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[0]};

    differentiation_append(differentiation, node, OP_LEAKY_RELU_BACKWARD, inputs, 2, node->input,
                           1);
}

const struct graph_operator operator_leaky_relu = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_ANY_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_leaky_relu_backward = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops,
};
