/* memory_plan.h: places every tensor of one or several graphs in one arena, by its lifetime.
 *
 * A session runs several graphs over the same weights: training, its shorter last batch,
 * evaluation. They share the persistent tensors, and the transient part of the arena is as large as
 * the largest graph needs. A backend says how many bytes each tensor takes (with the padding of its
 * layout; 0 if it was fused away) and how much scratch each node needs. */
#pragma once

#include "base/error.h"
#include "engine/graph/graph.h"

#include <stddef.h>
#include <stdint.h>

/* alignment of every offset: a cache line, and a vector of AVX-512 */
enum { MEMORY_ALIGNMENT = 64 };

enum memory_class {
    MEMORY_WEIGHTS, /* parameters and statistics */
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_ACTIVATIONS,
    MEMORY_WORKSPACE, /* library scratch, packed weights, partial sums */
    MEMORY_STAGING,   /* batches on their way in */
    MEMORY_AVERAGES,  /* moving averages of the weights */
    MEMORY_DATA,      /* data sets in the device's memory, of which it makes batches */
    MEMORY_CLASS_COUNT
};

/* A fused node accesses a tensor that is neither its input nor its output. */
struct memory_touch {
    int32_t tensor, node;
};

/* The memory that a backend needs for one graph; the backend owns the arrays. */
struct memory_request {
    const struct graph *graph;
    const size_t *tensor_bytes;   /* per tensor; 0: needs no storage of its own */
    const int32_t *tensor_alias;  /* per tensor: the tensor whose storage it shares, or -1 */
    const size_t *node_workspace; /* per node, live while it runs */
    /* per node: the step in which it runs, from 0 to node_count - 1. Fused nodes have the same
     * step, in which everything that any of them accesses is live. NULL: node i runs in step i */
    const int32_t *node_step;
    const struct memory_touch *touches;
    int touch_count;
    /* scratch that every node may use, at the same place in all programs of a session; no node
     * leaves anything in it for another */
    size_t shared_workspace;
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
    size_t staging_offset; /* SIZE_MAX without staging */
    size_t arena_bytes;    /* exactly what the session allocates */
    /* use at the moment of the transient peak. The classes add up to arena_bytes: alignment and
     * holes count for the class that they lie in */
    size_t class_bytes[MEMORY_CLASS_COUNT];
};

/* Plans `count` requests. The persistent tensors are those of requests[0]; the other requests'
 * persistent tensors must have the same names and bytes (-EINVAL with a sentence otherwise), but
 * may have carried state of their own.
 * Offsets are multiples of MEMORY_ALIGNMENT. Greedy by size over lifetimes (Pisarchyk and Lee 2020,
 * arXiv:2001.03288, "greedy by size for offset calculation"). A node that may work in place (enum
 * storage_reuse) and runs alone in its step reuses the storage of an input that dies there, if both
 * take the same bytes. The graph's output and the gradients of parameters and samples stay live to
 * the end of the run. Release with memory_plan_release(). */
int memory_plan_make(const struct memory_request *requests, int count, size_t staging_bytes,
                     struct memory_plan *plan, struct error *error);
/* Appends `bytes` bytes to the arena; returns their offset. */
size_t memory_plan_append(struct memory_plan *plan, enum memory_class kind, size_t bytes);
void memory_plan_release(struct memory_plan *plan);

DECLARE_STRING_TABLE(memory_class, enum memory_class);
