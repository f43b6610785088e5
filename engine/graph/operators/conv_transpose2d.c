/* conv_transpose2d.c: transposed convolutions, as torch.nn.ConvTranspose2d. Each is the gradient by
 * the data of a convolution, and its own gradient by the data is that convolution: it is made of
 * the operators that convolutions have already, and of a bias. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

#include <errno.h>
#include <math.h>

static int fail(struct graph *graph, const char *name, const char *sentence,
                const struct graph_shape *input)
{
    char text[SHAPE_TEXT_MAX];

    return graph_fail(graph, -EINVAL, "layer %s (conv_transpose): %s; the input is %s", name,
                      sentence, graph_shape_format(input, text, sizeof text));
}

/* The extent of the result along axis 2 + `axis`; less than 1 if there is none. */
static int64_t extent(const struct graph_shape *x, const struct conv_attributes *a,
                      const int output_padding[2], int axis)
{
    return (x->extent[2 + axis] - 1) * a->stride[axis] - 2 * (int64_t)a->padding[axis] +
           (int64_t)a->dilation[axis] * (a->kernel[axis] - 1) + output_padding[axis] + 1;
}

static int check(struct graph *graph, const char *name, const struct graph_shape *x,
                 int64_t channels, const struct conv_attributes *a, const int output_padding[2])
{
    if (channels < 1 || a->groups < 1 || x->extent[1] % a->groups || channels % a->groups)
        return fail(graph, name, "the groups must divide the channels of input and result", x);
    for (int axis = 0; axis < 2; axis++) {
        int most = a->stride[axis] > a->dilation[axis] ? a->stride[axis] : a->dilation[axis];

        if (a->kernel[axis] < 1 || a->stride[axis] < 1 || a->dilation[axis] < 1 ||
            a->padding[axis] < 0)
            return fail(graph, name,
                        "kernel, stride and dilation must be at least 1, padding at least 0", x);
        if (output_padding[axis] < 0 || output_padding[axis] >= most)
            return fail(graph, name,
                        "output_padding must be smaller than the stride or the dilation", x);
        if (extent(x, a, output_padding, axis) < 1)
            return fail(graph, name, "the padding leaves nothing of the result", x);
    }
    return 0;
}

int32_t graph_conv_transpose2d(struct graph *graph, int32_t input, const char *name,
                               int64_t channels, const struct conv_attributes *attributes,
                               const int output_padding[2], bool bias)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_CONV2D_BACKWARD_DATA);
    struct initializer initializer = {.kind = INITIALIZER_UNIFORM};
    struct graph_shape result, weight;
    int32_t inputs[2] = {input, -1}, added = -1;
    struct graph_node *node;

    if (!x || check(graph, name, &x->shape, channels, attributes, output_padding))
        return graph->error.code;
    result = (struct graph_shape){.rank = 4,
                                  .extent = {graph->batch, channels,
                                             extent(&x->shape, attributes, output_padding, 0),
                                             extent(&x->shape, attributes, output_padding, 1)}};
    weight = (struct graph_shape){.rank = 4,
                                  .extent = {x->shape.extent[1], channels / attributes->groups,
                                             attributes->kernel[0], attributes->kernel[1]}};
    initializer.bound =
        1.0f / sqrtf((float)weight.extent[1] * (float)weight.extent[2] * (float)weight.extent[3]);
    inputs[1] =
        layer_append_parameter(graph, name, "weight", TENSOR_PARAMETER, &weight, initializer);
    if (bias)
        added = layer_append_parameter(graph, name, "bias", TENSOR_PARAMETER,
                                       &(struct graph_shape){.rank = 1, .extent = {channels}},
                                       initializer);
    node = layer_append_node(graph, OP_CONV2D_BACKWARD_DATA, name, inputs, 2,
                             layer_append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.conv = *attributes;
    return bias ? layer_append_channel_bias(graph, graph->output, name, added) : graph->output;
}
