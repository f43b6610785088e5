/* channel_scale.c: multiplies every channel of an image by a number of its own; and the
 * gradients. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_channel_scale(struct graph *graph, int32_t input, int32_t scale, const char *name)
{
    const struct graph_tensor *x = layer_image(graph, input, name, OP_CHANNEL_SCALE);
    const struct graph_tensor *s = layer_image(graph, scale, name, OP_CHANNEL_SCALE);
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    int32_t inputs[2] = {input, scale};
    struct graph_shape shape;

    if (!x || !s)
        return graph->error.code;
    shape = x->shape;
    if (s->shape.extent[1] != shape.extent[1] || s->shape.extent[2] != 1 || s->shape.extent[3] != 1)
        return layer_fail(graph, name, OP_CHANNEL_SCALE,
                          "the scale %s does not have one number for each channel of %s",
                          graph_shape_format(&s->shape, first, sizeof first),
                          graph_shape_format(&shape, second, sizeof second));
    layer_append_node(graph, OP_CHANNEL_SCALE, name, inputs, 2,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]);
}

/* dx, and the sum of dy x. */
static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]) * 3;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[0], node->input[1]};

    differentiation_append(differentiation, node, OP_CHANNEL_SCALE_BACKWARD, inputs, 3, node->input,
                           2);
}

const struct graph_operator operator_channel_scale = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_channel_scale_backward = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops_backward,
};
