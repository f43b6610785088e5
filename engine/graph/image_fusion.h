/* image_fusion.h: nodes of images that a neighbour may do along with its own work, as fusion.h has
 * them of products and batch norms:
 *
 *   convolution with a bias -> activation              one pass over the convolution's result
 *   convolution -> ReLU -> maximum pool                the same, which leaves the maxima alone:
 *       where one is not above zero its window has no position, so that ReLU backward is the pool's
 *   activation backward -> convolution backward        the gradient of the bias is added up in the
 *       pass that makes the gradient by the convolution's result, or of the pool's own gradients
 *   channel scale backward, average pool backward -> add    squeeze and excite: one pass makes the
 *       gradient by what both have read
 */
#pragma once

#include "engine/graph/graph.h"

/* What nodes of images do along with their own work: nodes, -1 where there is none. */
struct image_fusion {
    /* OP_CONV2D: the activation behind it, and the pool behind that with the gradients of both */
    int32_t activation, pool, pool_backward, relu_backward;
    bool keeps; /* the convolution's result is stored, too */
    /* OP_ACTIVATION_BACKWARD, OP_MAX_POOL2D_BACKWARD: the tensor of a bias' gradient */
    int32_t bias_gradient;
    bool leaves_bias; /* OP_CONV2D_BACKWARD_WEIGHTS: to one of these */
    /* OP_ADD: OP_CHANNEL_SCALE_BACKWARD and OP_AVERAGE_POOL2D_BACKWARD */
    int32_t scaled, pooled;
    bool sums_alone; /* OP_CHANNEL_SCALE_BACKWARD: an OP_ADD makes the gradient by the images */
};

/* What a backend that carries these out says about one program. */
struct image_fusion_rules {
    const void *context;
    /* Whether the node, a convolution or one of its gradients, is done as one. */
    bool (*convolves)(const void *context, int32_t node);
    /* Whether two tensors have one type in memory. */
    bool (*stored_alike)(const void *context, int32_t a, int32_t b);
    int window_max; /* pixels of a maximum pool's window */
};

/* Fills `fusions`, one for each node of the graph. */
void graph_find_image_fusions(const struct graph *graph, const struct image_fusion_rules *rules,
                              struct image_fusion *fusions);
