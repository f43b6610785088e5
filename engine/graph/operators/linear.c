/* linear.c: linear layers: y = x weight^T + bias, as torch.nn.Linear, and their gradients. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <math.h>

int32_t graph_linear(struct graph *graph, int32_t input, const char *name, int64_t features,
                     bool bias)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_LINEAR, TENSOR_FLOAT32);
    struct initializer initializer = {.kind = INITIALIZER_UNIFORM};
    char text[SHAPE_TEXT_MAX];
    struct graph_shape result, weight;
    int32_t inputs[3] = {input, -1, -1};

    if (!x)
        return graph->error.code;
    if (x->shape.rank != 2 && x->shape.rank != 3)
        return layer_fail(graph, name, OP_LINEAR,
                          "expects [batch, features], but the input is %s%s",
                          graph_shape_format(&x->shape, text, sizeof text),
                          x->shape.rank > 3 ? "; put a flatten layer before it" : "");
    if (features < 1)
        return layer_fail(graph, name, OP_LINEAR, "%lld features, at least 1 is needed",
                          (long long)features);
    result = x->shape;
    weight = (struct graph_shape){.rank = 2, .extent = {features, result.extent[result.rank - 1]}};
    result.extent[result.rank - 1] = features;
    /* kaiming_uniform with a = sqrt(5) and uniform bias: both bounds are 1 / sqrt(fan-in) */
    initializer.bound = 1.0f / sqrtf((float)weight.extent[1]);
    inputs[1] =
        layer_append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, initializer);
    if (bias)
        inputs[2] = layer_append_parameter(graph, name, "bias", TENSOR_PARAMETER,
                                           &(struct graph_shape){.rank = 1, .extent = {features}},
                                           initializer);
    layer_append_node(graph, OP_LINEAR, name, inputs, 3, layer_append_result(graph, name, &result));
    return graph->error.code ? graph->error.code : graph->output;
}

static const struct graph_tensor *parameter_of(const struct graph *graph, int32_t tensor)
{
    bool there = tensor >= 0 && tensor < graph->tensor_count &&
                 graph->tensors[tensor].role == TENSOR_PARAMETER;

    return there ? &graph->tensors[tensor] : NULL;
}

int32_t graph_linear_shared(struct graph *graph, int32_t input, const char *name, int32_t weight,
                            int32_t bias)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_LINEAR, TENSOR_FLOAT32);
    const int32_t inputs[3] = {input, weight, bias};
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    struct graph_shape result;
    const struct graph_tensor *w;

    if (!x)
        return graph->error.code;
    result = x->shape;
    w = parameter_of(graph, weight);
    if (!w || w->shape.rank != 2)
        return layer_fail(graph, name, OP_LINEAR, "there is no matrix %d to share", weight);
    if (bias >= 0 && (!parameter_of(graph, bias) ||
                      graph_shape_elements(&graph->tensors[bias].shape) != w->shape.extent[0]))
        return layer_fail(graph, name, OP_LINEAR, "tensor %d is no bias for %s", bias, w->name);
    if (result.rank < 2 || result.rank > 3 || result.extent[result.rank - 1] != w->shape.extent[1])
        return layer_fail(graph, name, OP_LINEAR,
                          "the shared %s is %s, but the input is %s, whose last extent must be the "
                          "matrix's",
                          w->name, graph_shape_format(&w->shape, first, sizeof first),
                          graph_shape_format(&result, second, sizeof second));
    result.extent[result.rank - 1] = w->shape.extent[0];
    layer_append_node(graph, OP_LINEAR, name, inputs, 3, layer_append_result(graph, name, &result));
    return graph->error.code ? graph->error.code : graph->output;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    product_differentiate(differentiation, node, dy, OP_LINEAR_BACKWARD_WEIGHTS,
                          OP_LINEAR_BACKWARD_DATA);
}

const struct graph_operator operator_linear = {
    .cost_class = COST_LINEAR,
    .product = PRODUCT_FORWARD,
    .flops = product_flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_linear_int8 = {
    .cost_class = COST_LINEAR,
    .product = PRODUCT_FORWARD,
    .flops = product_flops,
};

/* No `product`, because no operand is rounded. */
const struct graph_operator operator_linear_bytes = {
    .cost_class = COST_LINEAR,
    .flops = product_flops,
};

const struct graph_operator operator_linear_backward_data = {
    .cost_class = COST_LINEAR,
    .product = PRODUCT_BACKWARD_DATA,
    .flops = product_backward_data_flops,
};

const struct graph_operator operator_linear_backward_weights = {
    .cost_class = COST_LINEAR,
    .product = PRODUCT_BACKWARD_WEIGHTS,
    .flops = product_backward_weights_flops,
};
