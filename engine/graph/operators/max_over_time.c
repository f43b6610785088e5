/* max_over_time.c: the largest number of each feature of a sequence (Collobert et al. 2011,
 * "Natural language processing (almost) from scratch", section 3.3.2), and its gradient. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_max_over_time(struct graph *graph, int32_t input, int32_t lengths, const char *name)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, OP_MAX_OVER_TIME);
    struct graph_shape shape = {.rank = 2, .extent = {graph->batch}};
    const int32_t inputs[] = {input, lengths};
    struct graph_node *node;
    int32_t position = -1;

    if (!x)
        return graph->error.code;
    shape.extent[1] = x->shape.extent[2];
    if (graph->training)
        position = graph_append_tensor(graph, TENSOR_ACTIVATION, TENSOR_INT32, &shape, true,
                                       "%s.position", name);
    node = layer_append_node(graph, OP_MAX_OVER_TIME, name, inputs, 2,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    if (position >= 0)
        graph_node_output(graph, node, position);
    return graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    differentiation_append(differentiation, node, OP_MAX_OVER_TIME_BACKWARD,
                           (int32_t[]){dy, node->output[1]}, 2, node->input, 1);
}

const struct graph_operator operator_max_over_time = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_max_over_time_backward = {
    .cost_class = COST_POOLING,
    .flops = flops_backward,
};
