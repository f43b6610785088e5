/* product.c: the common part of linear layers and convolutions; see operators.h. */
#include "engine/graph/operators/operators.h"

void product_differentiate(struct differentiation *differentiation, const struct graph_node *node,
                           int32_t dy, enum graph_op weights, enum graph_op data)
{
    const int32_t x = node->input[0], weight = node->input[1];

    const int32_t bias = node->input[2];
    bool learns_bias = bias >= 0 && differentiation_needs(differentiation, bias);

    differentiation_append(differentiation, node, weights, (int32_t[]){x, dy}, 2,
                           (int32_t[]){weight, learns_bias ? bias : -1}, 2);
    if (differentiation_needs(differentiation, x))
        differentiation_append(differentiation, node, data, (int32_t[]){dy, weight}, 2, &x, 1);
}

/* The multiplications and additions of y = x weight over all rows or pixels of y. Both gradients
 * have as many. */
static double multiply_flops(const struct graph *graph, int32_t y, int32_t weight)
{
    const struct graph_tensor *w = &graph->tensors[weight];

    return 2 * graph_tensor_elements(graph, y) * graph_tensor_elements(graph, weight) /
           (double)w->shape.extent[0];
}

double product_flops(const struct graph *graph, const struct graph_node *node)
{
    int32_t y = node->output[0];
    bool bias = node->input[2] >= 0;

    return multiply_flops(graph, y, node->input[1]) + (bias ? graph_tensor_elements(graph, y) : 0);
}

double product_backward_data_flops(const struct graph *graph, const struct graph_node *node)
{
    return multiply_flops(graph, node->input[0], node->input[1]);
}

double product_backward_weights_flops(const struct graph *graph, const struct graph_node *node)
{
    int32_t dy = node->input[1];
    bool bias = node->output_count > 1;

    return multiply_flops(graph, dy, node->output[0]) +
           (bias ? graph_tensor_elements(graph, dy) : 0);
}
