/* plain_graph.h: a graph evaluated by loops in double precision, node by node, as
 * engine/graph/graph.h describes the operators: what a backend's results are compared with. Of the
 * operators it knows those of networks of convolutions with a mean squared error. */
#pragma once

#include "engine/graph/graph.h"

struct plain_graph {
    const struct graph *graph;
    double **values; /* of each tensor, its shape in row-major order; owned */
    bool rounds;     /* to be set: every result to float32, which tells how much rounding matters */
    /* a ReLU or a maximum was so close to going the other way that rounding decides */
    bool ambiguous;
};

/* Everything is 0. The graph must outlive it. An unknown operator ends the
 * program with its name. */
void plain_graph_init(struct plain_graph *plain, const struct graph *graph);
void plain_graph_release(struct plain_graph *plain);
/* Runs the nodes of the forward part and of the backward part, if there is one. */
void plain_graph_run(struct plain_graph *plain);
