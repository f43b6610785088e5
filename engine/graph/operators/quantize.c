/* quantize.c: numbers become integers of 8 bits and the other way round, convolutions of them, and
 * what finds the range of numbers (Jacob et al. 2018, arXiv:1712.05877). graph_quantize() and
 * graph_observe() append these nodes; they have no gradient. */
#include "engine/graph/operators/operators.h"

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 2;
}

const struct graph_operator operator_conv2d_int8 = {
    .cost_class = COST_CONVOLUTION,
    .product = PRODUCT_FORWARD,
    .flops = product_flops,
};

const struct graph_operator operator_quantize = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
};

const struct graph_operator operator_dequantize = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
};

const struct graph_operator operator_observe = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
    .joins_samples = true,
};
