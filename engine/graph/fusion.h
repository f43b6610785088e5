/* fusion.h: finds neighbouring nodes that one kernel can compute together (fusion), so that the
 * tensor between them is neither written nor read. The patterns are the same for every backend. A
 * backend says which of them its kernels support, and changes its program by what was found:
 *
 *   linear, convolution -> activation
 *       The kernel applies the activation to the result.
 *   batch norm [-> add] [-> activation]
 *       One forward pass computes all of it.
 *   batch norm -> add of a second batch norm's result
 *       If only the add reads that result, the first kernel normalises both operands.
 *   activation backward -> batch norm backward
 *       Both passes compute the gradient by the activation's operand from x and do not store it.
 *       Batch norm's result is not stored either if only the activation reads it.
 *   [add ->] ReLU backward -> batch norm backward
 *       If other nodes read that gradient, too (residual blocks), or batch norm's result is not
 *       kept, the first pass computes and stores the gradient.
 */
#pragma once

#include "engine/graph/graph.h"

/* A set of enum activation_kind. */
#define FUSION_ACTIVATION(kind) (1u << (kind))
#define FUSION_ANY_ACTIVATION (~0u)

/* The neighbours' work that the kernel of a node can include. */
struct fusion_abilities {
    /* set of kinds: applied to the result; batch norm's gradient: differentiated first */
    unsigned activations;
    /* batch norm: adds another tensor before the activation. Its gradient: adds two gradients
     * before that of the activation, if it stores the latter */
    bool adds;
    /* batch norm's gradient: adds also if it computes the activation's gradient from x */
    bool adds_always;
    /* batch norm: normalises the added tensor with a second batch norm's moments */
    bool normalises_addend;
};

/* The abilities of a backend's kernels for one program. */
struct fusion_rules {
    const void *context;
    struct fusion_abilities (*abilities)(const void *context, int32_t node);
    /* Whether no other node has taken over the node's work; NULL: true of all nodes. */
    bool (*is_free)(const void *context, int32_t node);
    /* Whether two tensors have the same type in memory; NULL: true of all tensors. */
    bool (*stored_alike)(const void *context, int32_t a, int32_t b);
};

/* What the kernel of a node computes in addition: ids of nodes and tensors; -1: none. */
struct fusion {
    /* Forward: the activation node that follows, the add node before that, and the tensor that the
     * add node adds. */
    int32_t activation, sum, addend;
    /* Forward: a second batch norm whose operand `addend` is. That one's own kernel then only
     * computes moments: its moments_alone is set. */
    int32_t second;
    bool moments_alone;
    /* Batch norm backward: the nodes whose work comes first: the activation's gradient, and the add
     * node before that. */
    int32_t activation_backward, gradient_sum;
    /* The gradients that these nodes read, in place of input[1]; the second one only with a sum. */
    int32_t incoming[2];
    /* batch norm whose result the activation read; the gradient is computed from its x and bias */
    int32_t norm;
    int32_t saved; /* without `norm`: ReLU's result; input[1] is then computed and stored */
    /* Whether dx may take over the storage of input[1]. */
    bool overwrites;
};

/* Fills `fusions`, one for each node of the graph. */
void graph_find_fusions(const struct graph *graph, const struct fusion_rules *rules,
                        struct fusion *fusions);

/* The incoming gradient whose storage the computed one may take over; -1: none. */
int32_t graph_overwritten_gradient(const struct graph *graph, const struct fusion *fusion);

/* Whether the node is a sum that reads the tensor and that a node before `place` may compute: a
 * batch norm that makes the other summand. Such a sum needs the tensor earlier than its own place
 * in the graph says. */
bool graph_may_be_added_before(const struct graph *graph, int32_t node, int32_t tensor,
                               int32_t place);

/* The activation, one of `kinds`, that is the only reader of the node's first result and may be
 * fused with the node; or -1. */
int32_t graph_find_activation(const struct graph *graph, const struct fusion_rules *rules,
                              int32_t node, unsigned kinds);
