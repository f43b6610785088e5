/* squeeze_excite.h: finds squeeze and excite: the average of each channel of an image, two linear
 * layers, each with an activation, and the channel scale by their result. A backend may compute
 * these nodes as one, and those of the gradient by the image as another one (Hu et al. 2018,
 * "Squeeze-and-Excitation Networks"). */
#pragma once

#include "engine/graph/graph.h"

/* Ids of nodes. Forward the OP_CHANNEL_SCALE `scale` computes all others, backward the
 * OP_CHANNEL_SCALE_BACKWARD, whose place is before theirs. */
struct squeeze_excite_nodes {
    int32_t scale;
    int32_t pool;       /* the average pool, or its gradient */
    int32_t reduce;     /* the first linear layer, or its gradient by the samples */
    int32_t activation; /* behind it */
    int32_t expand;     /* the second one */
    int32_t gate;       /* the activation that makes the factors */
    int32_t sum;        /* backward: the OP_ADD that makes the image's gradient; forward: -1 */
};

/* Whether `scale` and the nodes before it are squeeze and excite, and nothing reads their results
 * before `scale`. A linear layer may be a convolution of one pixel. */
bool graph_find_squeeze_excite(const struct graph *graph, int32_t scale,
                               struct squeeze_excite_nodes *nodes);
/* Whether `scale` and nodes behind it are its gradient by the image, all that they read is there
 * before `scale`, and nothing else reads what a single node cannot give: the gradients by the
 * factors, by the results of both layers' samples, and both terms of the sum. */
bool graph_find_squeeze_excite_backward(const struct graph *graph, int32_t scale,
                                        struct squeeze_excite_nodes *nodes);
/* Whether a node that is none of these reads the tensor, also through casts. */
bool squeeze_excite_is_read(const struct graph *graph, const struct squeeze_excite_nodes *nodes,
                            int32_t tensor);
