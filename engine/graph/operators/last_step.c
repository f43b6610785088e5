/* last_step.c: one vector for each sequence of a batch: its last step, its first one, or the mean
 * over its steps; and the gradients. The sequences may differ in length. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

static int32_t append_pool(struct graph *graph, int32_t input, int32_t lengths, const char *name,
                           enum graph_op op, bool reverse)
{
    const struct graph_tensor *x = layer_sequence(graph, input, name, op);
    int32_t inputs[2] = {input, lengths};
    struct graph_shape result;
    struct graph_node *node;

    if (!x)
        return graph->error.code;
    result = (struct graph_shape){.rank = 2, .extent = {graph->batch, x->shape.extent[2]}};
    node = layer_append_node(graph, op, name, inputs, 2, layer_append_result(graph, name, &result));
    if (node)
        node->attributes.recurrent.reverse = reverse;
    return graph->error.code ? graph->error.code : graph->output;
}

int32_t graph_last_step(struct graph *graph, int32_t input, int32_t lengths, const char *name,
                        bool reverse)
{
    return append_pool(graph, input, lengths, name, OP_LAST_STEP, reverse);
}

int32_t graph_first_step(struct graph *graph, int32_t input, const char *name)
{
    return append_pool(graph, input, -1, name, OP_LAST_STEP, true);
}

int32_t graph_mean_over_time(struct graph *graph, int32_t input, int32_t lengths, const char *name)
{
    return append_pool(graph, input, lengths, name, OP_MEAN_OVER_TIME, false);
}

static void differentiate_last_step(struct differentiation *d, const struct graph_node *node,
                                    int32_t dy)
{
    differentiation_append(d, node, OP_LAST_STEP_BACKWARD, (int32_t[]){dy, node->input[1]}, 2,
                           node->input, 1);
}

static void differentiate_mean(struct differentiation *d, const struct graph_node *node, int32_t dy)
{
    differentiation_append(d, node, OP_MEAN_OVER_TIME_BACKWARD, (int32_t[]){dy, node->input[1]}, 2,
                           node->input, 1);
}

/* Reads one step of each sequence. */
static double bytes_last_step(const struct graph *graph, const struct graph_node *node)
{
    return 2 * graph_tensor_bytes(graph, node->output[0]);
}

static double flops_mean(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static double flops_mean_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->output[0]);
}

const struct graph_operator operator_last_step = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .bytes = bytes_last_step,
    .differentiate = differentiate_last_step,
};

const struct graph_operator operator_last_step_backward = {
    .cost_class = COST_POOLING,
};

const struct graph_operator operator_mean_over_time = {
    .cost_class = COST_POOLING,
    .is_cheap = true,
    .flops = flops_mean,
    .differentiate = differentiate_mean,
};

const struct graph_operator operator_mean_over_time_backward = {
    .cost_class = COST_POOLING,
    .flops = flops_mean_backward,
};
