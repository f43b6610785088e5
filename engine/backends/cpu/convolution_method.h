/* convolution_method.h: the methods of a convolution, or of a gradient of one, that a plan measures
 * and chooses from, and the text of a choice: the layout of images (enum convolution_order, or
 * nothing), then for each convolution of the forward part, in order, a letter for each
 * direction. */
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/onednn.h"

enum { ONEDNN_DIRECTIONS = ONEDNN_BACKWARD_WEIGHTS + 1 };

enum convolution_method {
    CONVOLUTION_BY_DEVICE, /* -: the device chooses: Winograd, a product or oneDNN */
    CONVOLUTION_DIRECT,    /* d: oneDNN's direct method, on the images themselves */
    /* b: oneDNN's, on copies in blocks of channels, the last block filled up */
    CONVOLUTION_BLOCK_COPIES,
    CONVOLUTION_PLAIN_COPIES,   /* n: oneDNN's, on copies in NCHW */
    CONVOLUTION_PLANES,         /* p: convolution_planes.h */
    CONVOLUTION_PLANES_IN_TURN, /* q: the same, with planes of some channels at a time */
    CONVOLUTION_LAST_COPIES,    /* l: oneDNN's direct method, on copies with channels last */
    /* by convolution_channels.h: */
    CONVOLUTION_LAST_CHANNELS,  /* c: its copies have channels last */
    CONVOLUTION_BLOCK_CHANNELS, /* f: its copies are in blocks of channels */
    CONVOLUTION_UNFOLDED        /* u: convolution_unfolded.h */
};

static inline bool convolution_is_over_planes(enum convolution_method method)
{
    return method == CONVOLUTION_PLANES || method == CONVOLUTION_PLANES_IN_TURN;
}

/* Whether the method's kernels are ours and read images in any order. */
static inline bool convolution_reads_any_order(enum convolution_method method)
{
    return convolution_is_over_planes(method) || method == CONVOLUTION_UNFOLDED;
}

enum convolution_order { CONVOLUTION_IN_BLOCKS = 'B', CONVOLUTION_CHANNELS_LAST = 'L' };

/* The layout of images in the choice (enum convolution_order); 0: it does not say. */
char convolution_choice_order(const char *choice);
/* -EINVAL and a sentence where the text is no choice. */
int convolution_methods_check(const char *choice, struct error *error);
/* Whether CONVOLUTION_UNFOLDED can compute the node: it has one group, and offsets in its tensors
 * are 32-bit numbers. */
bool convolution_can_unfold(const struct graph *graph, const struct graph_node *node);
/* The method of a node, a convolution or a gradient of one; CONVOLUTION_BY_DEVICE beyond the
 * choice's end. */
enum convolution_method convolution_method_of(const struct graph *graph, const char *choice,
                                              const struct graph_node *node);
