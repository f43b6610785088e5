/* cost.h: the work of one run of a graph, counted from its shapes: floating-point operations, bytes
 * moved and kernels, by phase and class of operator. The counts are the same on every device;
 * together with a device's measured speeds they predict the time of a step. */
#pragma once

#include "engine/graph/graph.h"
#include "engine/graph/operator.h"

#include <stdint.h>

struct cost {
    double flops; /* a multiply-add counts 2; exp, erf, tanh, log, root and division count 1 each */
    double bytes; /* every operand of a node read once, every result written once */
    int64_t kernels; /* number of nodes; a reshape does not count */
};

struct graph_cost {
    struct cost cost[GRAPH_UPDATE + 1][COST_CLASS_COUNT]; /* by phase and class, for one run */
    struct cost recomputed; /* the part of it that graph_recompute() added */
    int64_t parameters;     /* learnt numbers */
};

/* One node of the graph. */
struct cost graph_node_cost(const struct graph *graph, const struct graph_node *node);

void graph_cost_measure(const struct graph *graph, struct graph_cost *cost);

/* Sum over the classes of the phases in `phases`, a set of bits 1 << enum graph_phase. */
struct cost graph_cost_total(const struct graph_cost *cost, unsigned phases);
