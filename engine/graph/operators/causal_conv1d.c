/* causal_conv1d.c: a convolution of each channel over the steps before it, with SiLU where asked
 * for, as torch.nn.Conv1d(D, D, K, groups=D, padding=K - 1) whose last K - 1 results are cut off;
 * and its gradients. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <math.h>

int32_t graph_causal_conv1d(struct graph *graph, int32_t input, const char *name,
                            const struct causal_conv *conv)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, OP_CAUSAL_CONV1D);
    struct initializer uniform = {.kind = INITIALIZER_UNIFORM};
    struct graph_shape shape, weight, bias;
    int32_t inputs[3] = {input, -1, -1};
    char text[SHAPE_TEXT_MAX];
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (conv->kernel < 1 || conv->kernel > CAUSAL_KERNEL_MAX)
        return layer_fail(graph, name, OP_CAUSAL_CONV1D, "a kernel of %d; it must be 1 to %d",
                          conv->kernel, CAUSAL_KERNEL_MAX);
    if (conv->sequences < 1 || x->shape.extent[1] % conv->sequences)
        return layer_fail(graph, name, OP_CAUSAL_CONV1D, "%d sequences do not divide %s",
                          conv->sequences, graph_shape_format(&x->shape, text, sizeof text));
    shape = x->shape;
    weight = (struct graph_shape){.rank = 3, .extent = {shape.extent[2], 1, conv->kernel}};
    bias = (struct graph_shape){.rank = 1, .extent = {shape.extent[2]}};
    uniform.bound = 1.0f / sqrtf((float)conv->kernel);
    inputs[1] = layer_append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, uniform);
    inputs[2] = layer_append_parameter(graph, name, "bias", TENSOR_PARAMETER, &bias, uniform);
    node = layer_append_node(graph, OP_CAUSAL_CONV1D, name, inputs, 3,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.time = (struct time_attributes){
        .sequences = conv->sequences, .reverse = conv->reverse, .silu = conv->silu};
    return graph->output;
}

static double taps(const struct graph *graph, const struct graph_node *node, int weight)
{
    return (double)graph->tensors[node->input[weight]].shape.extent[2];
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) *
           (2 * taps(graph, node, 1) + 1 + (node->attributes.time.silu ? 4 : 0));
}

/* With SiLU its operand is made again. */
static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    bool silu = node->attributes.time.silu;

    return graph_tensor_elements(graph, node->output[0]) *
           ((silu ? 6 : 4) * taps(graph, node, 2) + 1 + (silu ? 9 : 0));
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[0], node->input[1], node->input[2]};

    differentiation_append(differentiation, node, OP_CAUSAL_CONV1D_BACKWARD, inputs, 4, node->input,
                           3);
}

const struct graph_operator operator_causal_conv1d = {
    .cost_class = COST_ELEMENTWISE,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_causal_conv1d_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops_backward,
};
