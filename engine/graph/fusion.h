/* fusion.h: nodes that a neighbour's kernel may do along with its own work, so that what passes
 * between them is neither written nor read. The patterns are found here, for every backend; a
 * backend says which of them its kernels carry out, and changes its program by what was found:
 *
 *   linear, convolution -> activation                     applied to the result
 *   batch norm [-> add] [-> activation]                   one pass forward
 *   batch norm -> add of another's result, which nobody
 *       else reads                                        the one reads the operands of both
 *   activation backward -> batch norm backward            the gradient by the activation's operand
 *       is made from x in both passes and not stored; nor is batch norm's result, where only the
 *       activation reads it
 *   [add ->] ReLU backward -> batch norm backward         where others read that gradient, too
 *       (residual blocks), or batch norm's result is not kept: the first pass makes and stores it
 */
#pragma once

#include "engine/graph/graph.h"

/* A set of enum activation_kind. */
#define FUSION_ACTIVATION(kind) (1u << (kind))
#define FUSION_ANY_ACTIVATION (~0u)

/* What a kernel does along with its node. */
struct fusion_abilities {
    unsigned activations;   /* it applies behind its result; of batch norm's gradient: takes back */
    bool adds;              /* batch norm: another tensor, before the activation; its gradient: two
                             gradients, before the activation's, where it stores that */
    bool adds_always;       /* batch norm's gradient: also where it makes that from x */
    bool normalises_addend; /* batch norm: by another one's moments */
};

/* What a backend says about one program. */
struct fusion_rules {
    const void *context;
    struct fusion_abilities (*abilities)(const void *context, int32_t node);
    /* Whether nobody has taken the node's work over; NULL: that is so of all. */
    bool (*is_free)(const void *context, int32_t node);
    /* Whether two tensors have one type in memory; NULL: all have. */
    bool (*stored_alike)(const void *context, int32_t a, int32_t b);
};

/* What is done along with a node: nodes and tensors, -1 where there is none. */
struct fusion {
    /* Forward: the node behind it, the sum before that, and what the sum adds. */
    int32_t activation, sum, addend;
    /* Forward: the batch norm that `addend` is the operand of; it then finds moments alone. */
    int32_t second;
    bool moments_alone;
    /* Batch norm backward: the nodes that come first: the activation's gradient, the sum before
     * that. */
    int32_t activation_backward, gradient_sum;
    /* The gradients that these read in place of input[1]; the second one: of the sum. */
    int32_t incoming[2];
    int32_t norm;  /* whose result the activation read: its gradient is made from x and the bias */
    int32_t saved; /* else ReLU's result; input[1] is then made and stored */
    /* Whether dx may take the storage of input[1] over. */
    bool overwrites;
};

/* Fills `fusions`, one for each node of the graph. */
void graph_find_fusions(const struct graph *graph, const struct fusion_rules *rules,
                        struct fusion *fusions);

/* The activation of one of the kinds that alone reads the node's first result and may be done with
 * it, or -1. */
int32_t graph_find_activation(const struct graph *graph, const struct fusion_rules *rules,
                              int32_t node, unsigned kinds);
