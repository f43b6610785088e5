/* image_fusion.h: finds nodes on images that can be fused, in the same way as fusion.h does for
 * products and batch norms:
 *
 *   convolution with a bias -> activation
 *       One pass over the convolution's result adds the bias and applies the activation.
 *   convolution -> ReLU -> maximum pool
 *       The same pass stores only the maxima. A window whose maximum is not positive has no
 *       position, so the pool's gradient includes that of ReLU.
 *   activation backward -> convolution backward
 *       The bias' gradient is summed in the pass that computes the gradient by the convolution's
 *       result, or from the pool's gradients.
 *   channel scale backward, average pool backward -> add
 *       Squeeze and excite: one pass computes the gradient by the tensor that both forward nodes
 *       read.
 *   activation -> channel scale
 *       The scale's kernel applies the activation as it reads the factors, and stores its result if
 *       the backward part reads that.
 *   channel scale backward -> activation backward
 *       The sums over the pixels are multiplied by the derivative before they are stored.
 */
#pragma once

#include "engine/graph/graph.h"

/* What the kernel of a node on images computes in addition: ids of nodes; -1: none. */
struct image_fusion {
    /* OP_CONV2D: the activation that follows, the pool that follows that, and both gradients */
    int32_t activation, pool, pool_backward, relu_backward;
    bool keeps; /* the convolution's result is stored, too */
    /* OP_ACTIVATION_BACKWARD, OP_MAX_POOL2D_BACKWARD: the gradient of a bias, which they sum */
    int32_t bias_gradient;
    bool leaves_bias; /* OP_CONV2D_BACKWARD_WEIGHTS: another node sums the bias' gradient */
    /* OP_ADD: the OP_CHANNEL_SCALE_BACKWARD and OP_AVERAGE_POOL2D_BACKWARD that it adds */
    int32_t scaled, pooled;
    bool sums_alone; /* OP_CHANNEL_SCALE_BACKWARD: computes only dscale; an OP_ADD computes dx */
    /* OP_CHANNEL_SCALE: the activation that makes its factors; OP_CHANNEL_SCALE_BACKWARD: the
     * OP_ACTIVATION_BACKWARD that reads their gradient */
    int32_t gate;
};

/* The abilities of a backend that supports these fusions, for one program. */
struct image_fusion_rules {
    const void *context;
    /* Whether the node, a convolution or one of its gradients, runs as a convolution. */
    bool (*convolves)(const void *context, int32_t node);
    /* Whether two tensors have the same type in memory. */
    bool (*stored_alike)(const void *context, int32_t a, int32_t b);
    int window_max; /* largest window of a maximum pool, in pixels */
};

/* Fills `fusions`, one for each node of the graph. */
void graph_find_image_fusions(const struct graph *graph, const struct image_fusion_rules *rules,
                              struct image_fusion *fusions);
