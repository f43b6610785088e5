/* patterns.c: finds the neighbours of a node that a backend may compute along with it. */
#include "engine/graph/operator.h"

int32_t graph_next_reader(const struct graph *graph, int32_t tensor, int32_t from)
{
    for (int32_t i = from; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].input[k] == tensor)
                return i;
    return -1;
}

int32_t graph_single_reader(const struct graph *graph, int32_t tensor)
{
    int32_t reader = graph_next_reader(graph, tensor, 0);

    if (reader < 0 || tensor == graph->output || tensor == graph->input_gradient ||
        graph_next_reader(graph, tensor, reader + 1) >= 0)
        return -1;
    return reader;
}

bool graph_gradient_can_be_overwritten(const struct graph *graph, int32_t gradient)
{
    int32_t producer = graph->tensors[gradient].producer;

    return producer >= 0 && graph->nodes[producer].phase == GRAPH_BACKWARD &&
           !graph_node_operator(&graph->nodes[producer])->is_view &&
           graph_single_reader(graph, gradient) >= 0;
}

int32_t graph_batch_norm_behind(const struct graph *graph, const struct graph_node *backward,
                                enum activation_kind kind, int32_t saved)
{
    int32_t i = graph->tensors[saved].producer;
    const struct graph_node *norm;
    bool same;

    if (kind == ACTIVATION_RELU) { /* ReLU saves its result, the others save their operand */
        if (i < 0 || graph->nodes[i].op != OP_ACTIVATION ||
            graph->nodes[i].attributes.activation != ACTIVATION_RELU)
            return -1;
        i = graph->tensors[graph->nodes[i].input[0]].producer;
    }
    if (i < 0 || !graph_node_is_batch_norm(&graph->nodes[i]))
        return -1;
    norm = &graph->nodes[i];
    same = norm->op == OP_BATCH_NORM
               ? norm->output_count > 2 && norm->output[1] == backward->input[3]
               : norm->input[3] == backward->input[3];
    return same && norm->input[0] == backward->input[0] ? i : -1;
}

bool graph_node_is_batch_norm(const struct graph_node *node)
{
    return node->op == OP_BATCH_NORM || node->op == OP_BATCH_NORM_APPLY;
}

bool graph_node_is_dense_3x3(const struct graph_node *node)
{
    const struct conv_attributes *a = &node->attributes.conv;

    if ((node->op != OP_CONV2D && node->op != OP_CONV2D_BACKWARD_DATA &&
         node->op != OP_CONV2D_BACKWARD_WEIGHTS) ||
        a->groups != 1)
        return false;
    for (int d = 0; d < 2; d++)
        if (a->kernel[d] != 3 || a->stride[d] != 1 || a->dilation[d] != 1)
            return false;
    return true;
}
