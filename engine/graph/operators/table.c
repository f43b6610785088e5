/* table.c: the table of descriptors, by enum graph_op. */
#include "engine/graph/operators/operators.h"

#define DESCRIPTOR(upper, lower) [OP_##upper] = &operator_##lower,
static const struct graph_operator *const operators[] = {GRAPH_OPERATORS(DESCRIPTOR)};
#undef DESCRIPTOR

const struct graph_operator *graph_operator(enum graph_op op)
{
    return operators[op];
}

static const char *const cost_class_names[] = {
    [COST_LINEAR] = "linear",           [COST_CONVOLUTION] = "convolution",
    [COST_POOLING] = "pooling",         [COST_NORMALISATION] = "normalisation",
    [COST_ELEMENTWISE] = "elementwise", [COST_EMBEDDING] = "embedding",
    [COST_ATTENTION] = "attention",     [COST_LOSS] = "loss",
    [COST_OPTIMIZER] = "optimizer",
};
DEFINE_STRING_TABLE(cost_class, enum cost_class, cost_class_names)
