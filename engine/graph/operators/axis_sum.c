/* axis_sum.c: the sum or the mean over an axis, as torch.sum and torch.mean, and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_axis_sum(struct graph *graph, int32_t input, const struct axis_sum_attributes *sum,
                       const char *name)
{
    const struct graph_tensor *x = layer_rows(graph, input, name, OP_AXIS_SUM);
    char text[SHAPE_TEXT_MAX];
    struct graph_shape shape = {.rank = 2};
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (sum->outer < 1 || sum->middle < 1 || sum->inner < 1 ||
        sum->outer * sum->middle * sum->inner != graph_shape_elements(&x->shape) / graph->batch)
        return layer_fail(graph, name, OP_AXIS_SUM, "its axes are not those of the input %s",
                          graph_shape_format(&x->shape, text, sizeof text));
    shape.extent[0] = graph->batch;
    shape.extent[1] = sum->outer * sum->inner;
    node = layer_append_node(graph, OP_AXIS_SUM, name, &input, 1,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.axis_sum = *sum;
    return graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_AXIS_SUM_BACKWARD, &dy, 1, node->input, 1);
}

const struct graph_operator operator_axis_sum = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_axis_sum_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops_backward,
};
