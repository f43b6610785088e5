/* broadcast.c: two tensors combined number by number, of which the second may repeat along axes
 * before and behind its own; and the gradients. */
#include "engine/graph/forward.h"
#include "engine/graph/operators/operators.h"

int32_t graph_broadcast(struct graph *graph, int32_t a, int32_t b,
                        const struct broadcast_attributes *broadcast, const char *name)
{
    const struct graph_tensor *x = layer_input(graph, a, name, OP_BROADCAST, TENSOR_FLOAT32);
    const struct graph_tensor *y = layer_input(graph, b, name, OP_BROADCAST, TENSOR_FLOAT32);
    char first[SHAPE_TEXT_MAX], second[SHAPE_TEXT_MAX];
    const int32_t inputs[2] = {a, b};
    struct graph_shape shape;
    struct graph_node *node;
    int64_t repeats;

    if (!x || !y)
        return graph->error.code;
    shape = x->shape;
    repeats = broadcast->outer * broadcast->inner;
    if (!x->batched || repeats < 1 || broadcast->middle < 1 ||
        repeats * broadcast->middle != graph_shape_elements(&shape) / graph->batch ||
        broadcast->middle * (y->batched ? graph->batch : 1) != graph_shape_elements(&y->shape) ||
        (repeats > 1 && y->batched && y->shape.rank > 3) ||
        /* images need not be rows of numbers in memory, as y is */
        ((repeats > 1 || !y->batched) && shape.rank > 3) ||
        (repeats == 1 && y->batched && !graph_shape_equal(&shape, &y->shape)))
        return layer_fail(graph, name, OP_BROADCAST, "the shapes %s and %s do not fit each other",
                          graph_shape_format(&x->shape, first, sizeof first),
                          graph_shape_format(&y->shape, second, sizeof second));
    node = layer_append_node(graph, OP_BROADCAST, name, inputs, 2,
                             layer_append_result(graph, name, &shape));
    if (!node)
        return graph->error.code;
    node->attributes.broadcast = *broadcast;
    /* A single number repeats along neighbours: kernels sum those in parallel, and with less
     * rounding than one after the other. */
    if (broadcast->middle == 1) {
        node->attributes.broadcast.outer = 1;
        node->attributes.broadcast.inner = repeats;
    }
    return graph->output;
}

static double flops(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]);
}

static double flops_backward(const struct graph *graph, const struct graph_node *node)
{
    return graph_tensor_elements(graph, node->input[0]) * 2;
}

static void differentiate(struct differentiation *differentiation, const struct graph_node *node,
                          int32_t dy)
{
    enum broadcast_kind kind = node->attributes.broadcast.kind;
    bool quotient = kind == BROADCAST_DIVIDE || kind == BROADCAST_DIVIDE_REVERSE;
    bool product = kind == BROADCAST_MULTIPLY;
    int32_t a = node->input[0], b = node->input[1];
    /* a sum's gradient needs neither operand, a product's the other one */
    const int32_t first[3] = {dy, kind == BROADCAST_DIVIDE_REVERSE ? a : -1,
                              quotient || product ? b : -1};
    const int32_t second[3] = {dy, quotient || product ? a : -1, kind == BROADCAST_DIVIDE ? b : -1};

    if (differentiation_needs(differentiation, b))
        differentiation_append(differentiation, node, OP_BROADCAST_BACKWARD_SECOND, second, 3, &b,
                               1);
    if (differentiation_needs(differentiation, a))
        differentiation_append(differentiation, node, OP_BROADCAST_BACKWARD_FIRST, first, 3, &a, 1);
}

const struct graph_operator operator_broadcast = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .is_cheap = true,
    .flops = flops,
    .differentiate = differentiate,
};

const struct graph_operator operator_broadcast_backward_first = {
    .cost_class = COST_ELEMENTWISE,
    .reuse = REUSE_FIRST_INPUT,
    .flops = flops_backward,
};

const struct graph_operator operator_broadcast_backward_second = {
    .cost_class = COST_ELEMENTWISE,
    .flops = flops_backward,
};
