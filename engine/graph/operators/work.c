/* work.c: counts the elements that an operator's work is computed from; see operators.h. */
#include "engine/graph/operators/operators.h"

double graph_tensor_elements(const struct graph *graph, int32_t tensor)
{
    return tensor < 0 ? 0 : (double)graph_shape_elements(&graph->tensors[tensor].shape);
}

double graph_tensor_bytes(const struct graph *graph, int32_t tensor)
{
    return tensor < 0 ? 0
                      : graph_tensor_elements(graph, tensor) *
                            tensor_type_bytes(graph->tensors[tensor].type);
}

double graph_node_bytes(const struct graph *graph, const struct graph_node *node)
{
    double bytes = 0;

    for (int i = 0; i < node->input_count; i++)
        bytes += graph_tensor_bytes(graph, node->input[i]);
    for (int i = 0; i < node->output_count; i++)
        bytes += graph_tensor_bytes(graph, node->output[i]);
    return bytes;
}
