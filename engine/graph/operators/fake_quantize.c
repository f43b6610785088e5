/* fake_quantize.c: rounds numbers as integers of 8 bits would hold them and keeps them float32, so
 * that training learns with the errors of quantization (Jacob et al. 2018, arXiv:1712.05877,
 * section 3). The gradient goes straight through the rounding (Bengio, Léonard and Courville 2013,
 * arXiv:1308.3432), and is 0 where a number was cut to the range. */
#include "engine/graph/operators/operators.h"

#include <math.h>

enum { VALUE_MAX = 255 };

struct quantization graph_quantization_of_range(const float range[2])
{
    float least = fminf(range[0], 0), most = fmaxf(range[1], 0);
    struct quantization q = {.scale = (most - least) / VALUE_MAX};

    if (!(q.scale > VALUE_MAX * __FLT_MIN__))
        q.scale = 1;
    q.zero = (int32_t)lrintf(-least / q.scale);
    return q;
}

int32_t graph_fake_quantize(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_shape pair = {.rank = 1, .extent = {2}};
    const struct graph_tensor *x =
        layer_input(graph, input, name, OP_FAKE_QUANTIZE, TENSOR_FLOAT32);
    struct graph_shape shape;
    int32_t range;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    range = graph_append_tensor(graph, TENSOR_STATISTIC, TENSOR_FLOAT32, &pair, false,
                                GRAPH_RANGE_PREFIX "%s", name);
    layer_append_node(graph, OP_FAKE_QUANTIZE, name, (int32_t[]){input, range}, 2,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

int32_t graph_fake_quantize_rows(struct graph *graph, int32_t input, const char *name)
{
    const struct graph_tensor *x =
        layer_input(graph, input, name, OP_FAKE_QUANTIZE_ROWS, TENSOR_FLOAT32);
    struct graph_shape shape;

    if (!x)
        return graph->error.code;
    shape = x->shape;
    layer_append_node(graph, OP_FAKE_QUANTIZE_ROWS, name, &input, 1,
                      layer_append_result(graph, name, &shape));
    return graph->error.code ? graph->error.code : graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 4;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    if (differentiation_needs(differentiation, node->input[0]))
        differentiation_append(differentiation, node, OP_FAKE_QUANTIZE_BACKWARD,
                               (int32_t[]){dy, node->input[0], node->input[1]}, 3, node->input, 1);
}

/* A row's own range cuts nothing, so the gradient is dy. */
static void differentiate_rows(struct differentiation *differentiation,
                               const struct graph_node *node, int32_t dy)
{
    if (differentiation_needs(differentiation, node->input[0]))
        differentiation_give(differentiation, node->input[0], dy);
}

const struct graph_operator operator_fake_quantize = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
    .joins_samples = true,
    .differentiate = differentiate,
};

const struct graph_operator operator_fake_quantize_backward = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
};

const struct graph_operator operator_fake_quantize_rows = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops,
    .differentiate = differentiate_rows,
};
