/* conv2d.c: convolutions of images, as torch.nn.Conv2d, and their gradients. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <math.h>

int32_t graph_conv2d(struct graph *graph, int32_t input, const char *name, int64_t channels,
                     const struct conv_attributes *attributes, bool bias)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_CONV2D);
    struct initializer initializer = {.kind = INITIALIZER_UNIFORM};
    char text[SHAPE_TEXT_MAX];
    struct graph_shape result, weight;
    int32_t inputs[3] = {input, -1, -1};
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (channels < 1)
        return layer_fail(graph, name, OP_CONV2D, "%lld channels, at least 1 is needed",
                          (long long)channels);
    if (attributes->groups < 1 || x->shape.extent[1] % attributes->groups ||
        channels % attributes->groups)
        return layer_fail(graph, name, OP_CONV2D,
                          "%d groups do not divide the %lld channels of the input %s and the %lld "
                          "channels of the result",
                          attributes->groups, (long long)x->shape.extent[1],
                          graph_shape_format(&x->shape, text, sizeof text), (long long)channels);
    result = (struct graph_shape){
        .rank = 4,
        .extent = {graph->batch, channels,
                   layer_window_extent(graph, x, name, OP_CONV2D, attributes, 0),
                   layer_window_extent(graph, x, name, OP_CONV2D, attributes, 1)}};
    weight = (struct graph_shape){.rank = 4,
                                  .extent = {channels, x->shape.extent[1] / attributes->groups,
                                             attributes->kernel[0], attributes->kernel[1]}};
    if (graph->error.code)
        return graph->error.code;
    initializer.bound =
        1.0f / sqrtf((float)weight.extent[1] * (float)weight.extent[2] * (float)weight.extent[3]);
    inputs[1] =
        layer_append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, initializer);
    if (bias)
        inputs[2] = layer_append_parameter(graph, name, "bias", TENSOR_PARAMETER,
                                           &(struct graph_shape){.rank = 1, .extent = {channels}},
                                           initializer);
    node = layer_append_node(graph, OP_CONV2D, name, inputs, 3,
                             layer_append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.conv = *attributes;
    return graph->output;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    product_differentiate(differentiation, node, dy, OP_CONV2D_BACKWARD_WEIGHTS,
                          OP_CONV2D_BACKWARD_DATA);
}

/* Of a transposed convolution: its operand has the place of dy, its result that of dx. */
static void differentiate_transposed(struct differentiation *differentiation,
                                     const struct graph_node *node, int32_t dy)
{
    const int32_t x = node->input[0], weight = node->input[1];

    differentiation_append(differentiation, node, OP_CONV2D_BACKWARD_WEIGHTS, (int32_t[]){dy, x}, 2,
                           &weight, 1);
    if (differentiation_needs(differentiation, x))
        differentiation_append(differentiation, node, OP_CONV2D, (int32_t[]){dy, weight, -1}, 3, &x,
                               1);
}

const struct graph_operator operator_conv2d = {
    .cost_class = COST_CONVOLUTION,
    .product = PRODUCT_FORWARD,
    .flops = product_flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_conv2d_backward_data = {
    .cost_class = COST_CONVOLUTION,
    .product = PRODUCT_BACKWARD_DATA,
    .flops = product_backward_data_flops,
    .differentiate = differentiate_transposed,
};

const struct graph_operator operator_conv2d_backward_weights = {
    .cost_class = COST_CONVOLUTION,
    .product = PRODUCT_BACKWARD_WEIGHTS,
    .flops = product_backward_weights_flops,
};
