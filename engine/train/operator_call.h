/* operator_call.h: the properties of a node that decide its time on a device, in a form that can be
 * compared with nodes of other graphs. */
#pragma once

#include "engine/backends/backend.h"
#include "engine/graph/graph.h"

enum { OPERATOR_KIND_MAX = 128, OPERATOR_EXTENTS = 4 };

/* The part of a node's work that one of the device's tasks does. */
struct operator_call {
    /* Words for operator, settings, the device's method and the window: "conv2d jit:avx512_core
     * 3x3/1", "batch_norm blocks_16 relu". */
    char kind[OPERATOR_KIND_MAX];
    /* Samples, pixels of a sample, depth (of a product's sum, of a pool's window) and columns
     * (channels; the numbers of a parameter). At least 1. */
    double extents[OPERATOR_EXTENTS];
    /* floating-point operations of products and convolutions, bytes of other operators */
    double work;
};

/* Describes a node that the device executes as `description` says. The node's seconds are those of
 * the call times `repetitions`, which is 0 if a neighbour does the node's work. */
void operator_call_describe(const struct graph *graph, int32_t node,
                            const struct node_description *description, struct operator_call *call,
                            double *repetitions);
