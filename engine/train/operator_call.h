/* operator_call.h: what decides how long a device takes for a node of a graph, in figures that can
 * be compared with those of other graphs' nodes. */
#pragma once

#include "engine/backends/backend.h"
#include "engine/graph/graph.h"

enum { OPERATOR_KIND_MAX = 128, OPERATOR_EXTENTS = 4 };

/* One task's part of a node, as the device divides it. */
struct operator_call {
    /* Words: operator, settings, the device's method, window. "conv2d jit:avx512_core 3x3/1",
     * "batch_norm blocks_16 relu". */
    char kind[OPERATOR_KIND_MAX];
    /* Samples, pixels of a sample, depth (of a product's sum, of a pool's window) and columns
     * (channels; the numbers of a parameter). At least 1. */
    double extents[OPERATOR_EXTENTS];
    double work; /* floating-point operations of products and convolutions, bytes of the rest */
};

/* Of a node that is done as the description says. Its seconds are those of the call times
 * `repetitions`: 0 when a neighbour does it. */
void operator_call_describe(const struct graph *graph, int32_t node,
                            const struct node_description *description, struct operator_call *call,
                            double *repetitions);
