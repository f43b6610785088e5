/* group_norm.c: normalisation of groups of channels of each sample, as torch.nn.GroupNorm (Wu and
 * He 2018, arXiv:1803.08494), and its gradient. A group for each channel is instance norm. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_group_norm(struct graph *graph, int32_t input, const char *name, int groups,
                         float epsilon)
{
    const struct graph_tensor *x = layer_input(graph, input, name, OP_GROUP_NORM, TENSOR_FLOAT32);
    const struct initializer zeros = {.kind = INITIALIZER_ZEROS}, ones = {.kind = INITIALIZER_ONES};
    int32_t inputs[3] = {input}, mean = -1, inverse_std = -1;
    struct graph_shape result, channel, group;
    char text[SHAPE_TEXT_MAX];
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    if (x->shape.rank < 2 || groups < 1 || x->shape.extent[1] % groups)
        return layer_fail(graph, name, OP_GROUP_NORM,
                          "%d groups do not divide the channels of the input %s", groups,
                          graph_shape_format(&x->shape, text, sizeof text));
    result = x->shape;
    channel = (struct graph_shape){.rank = 1, .extent = {result.extent[1]}};
    group = (struct graph_shape){.rank = 2, .extent = {graph->batch, groups}};
    inputs[1] = layer_append_parameter(graph, name, "weight", TENSOR_PARAMETER, &channel, ones);
    inputs[2] = layer_append_parameter(graph, name, "bias", TENSOR_PARAMETER, &channel, zeros);
    if (graph->training) {
        mean = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &group, true,
                                   "%s.mean", name);
        inverse_std = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_FLOAT32, &group, true,
                                          "%s.inverse_std", name);
    }
    node = layer_append_node(graph, OP_GROUP_NORM, name, inputs, 3,
                             layer_append_result(graph, name, &result));
    if (!node)
        return graph->error.code;
    node->attributes.group_norm.groups = groups;
    node->attributes.group_norm.epsilon = epsilon;
    if (graph->training) {
        graph_node_output(graph, node, mean);
        graph_node_output(graph, node, inverse_std);
    }
    return graph->output;
}

/* Mean and variance, then scale and shift. */
static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 7;
}

/* Two sums, then dx from them. */
static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 10;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    const int32_t inputs[] = {dy, node->input[0], node->input[1], node->output[1], node->output[2]};

    differentiation_append(differentiation, node, OP_GROUP_NORM_BACKWARD, inputs, 5, node->input,
                           3);
}

const struct graph_operator operator_group_norm = {
    .cost_class = COST_NORMALISATION,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

/* dx may take the place of dy: a sample's sums are made before its dx is written. */
const struct graph_operator operator_group_norm_backward = {
    .cost_class = COST_NORMALISATION,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops_backward,
};
