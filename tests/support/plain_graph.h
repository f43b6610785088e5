/* plain_graph.h: evaluates a graph by loops in double precision, node by node, as
 * engine/graph/graph.h describes the operators. A backend's results are compared with this. It
 * knows the operators of networks of convolutions with a mean squared error. */
#pragma once

#include "engine/graph/graph.h"

struct plain_graph {
    const struct graph *graph;
    double **values; /* of each tensor, its shape in row-major order; owned */
    /* set by the caller: rounds every result to float32, which shows how much rounding matters */
    bool rounds;
    /* a ReLU or a maximum was so close that rounding decides about it */
    bool ambiguous;
};

/* Everything is 0. The graph must outlive it. An unknown operator ends the
 * program with its name. */
void plain_graph_init(struct plain_graph *plain, const struct graph *graph);
void plain_graph_release(struct plain_graph *plain);
/* Runs the nodes of the forward part and of the backward part, if there is one. */
void plain_graph_run(struct plain_graph *plain);
