/* memory_plan.h: lifetimes to offsets: where every tensor of one or several graphs lies in one
 * arena.
 *
 * A session runs several graphs over the same weights (training, its shorter last batch,
 * evaluation); they share the persistent tensors, and the transient part of the arena is as large
 * as the largest of them. A backend says how many bytes each tensor really takes (padding of its
 * layout, 0 for one it fused away) and how much scratch each node wants. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"

#include <stddef.h>
#include <stdint.h>

enum { MEMORY_ALIGNMENT = 64 }; /* of every offset: a cache line, and a vector of AVX-512 */

enum memory_class {
    MEMORY_WEIGHTS, /* parameters and statistics */
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_ACTIVATIONS,
    MEMORY_WORKSPACE, /* library scratch, packed weights, partial sums */
    MEMORY_STAGING,   /* batches on their way in */
    MEMORY_AVERAGES,  /* moving averages of the weights */
    MEMORY_DATA,      /* sets that the device makes batches of */
    MEMORY_CLASS_COUNT
};

/* A node reads or writes a tensor that is none of its own: a fused one does. */
struct memory_touch {
    int32_t tensor, node;
};

/* What a backend chose for one graph; arrays are the backend's. */
struct memory_request {
    const struct graph *graph;
    const size_t *tensor_bytes;   /* per tensor; 0: needs no storage of its own */
    const int32_t *tensor_alias;  /* per tensor: shares the storage of that tensor, or -1 */
    const size_t *node_workspace; /* per node, live while it runs */
    const int32_t *node_step;     /* per node: when it runs, numbers from 0 to node_count - 1. Nodes
                                     that run as one (fused) carry the same number; all that any of
                                     them reads or writes is then live. NULL: node i runs at i */
    const struct memory_touch *touches;
    int touch_count;
    size_t shared_workspace; /* scratch of any node, the same place in all programs of a
                                session: nothing stays in it from node to node */
};

/* The plan of one graph within the arena. */
struct memory_placement {
    size_t *tensor_offset;    /* per tensor, from the arena's start; SIZE_MAX: no storage */
    size_t *workspace_offset; /* per node */
    size_t shared_workspace_offset;
};

struct memory_plan {
    struct memory_placement *placements; /* per request; owned */
    int placement_count;
    size_t staging_offset;                  /* SIZE_MAX without staging */
    size_t arena_bytes;                     /* what the session allocates, exactly */
    size_t class_bytes[MEMORY_CLASS_COUNT]; /* at the moment of the transient peak; they add up to
                                               arena_bytes with alignment and holes counted where
                                               they lie */
};

/* Plans `count` requests. The persistent tensors of requests[0] decide; those of the others are
 * matched to them by name and must agree in bytes (-EINVAL with a sentence otherwise).
 * Offsets are multiples of MEMORY_ALIGNMENT. Greedy by size over lifetimes (Pisarchyk and Lee 2020,
 * arXiv:2001.03288, "greedy by size for offset calculation"). A node that may work in place
 * (activations, dropout, add, channel scale, their backward, casts) and runs in a step of its own
 * reuses the storage of an input that dies there, when both take the same bytes. Live beyond their
 * last use, to the end of the run: the graph's output, gradients of parameters and of the samples.
 * Release with memory_plan_release(). */
int memory_plan_make(const struct memory_request *requests, int count, size_t staging_bytes,
                     struct memory_plan *plan, struct error *error);
/* Appends so many bytes to the arena; returns their offset. */
size_t memory_plan_append(struct memory_plan *plan, enum memory_class kind, size_t bytes);
void memory_plan_release(struct memory_plan *plan);

DECLARE_STRING_TABLE(memory_class, enum memory_class);
