/* convolution_method.h: the ways to do a convolution, or a gradient of one, that a plan
 * measures and chooses from, and how they are written down: how images lie (enum
 * convolution_order, or nothing), then for each convolution of the forward part, in order, a
 * letter for each direction. */
#pragma once

#include "engine/backends/backend.h"
#include "engine/backends/cpu/onednn.h"

enum { ONEDNN_DIRECTIONS = ONEDNN_BACKWARD_WEIGHTS + 1 };

enum convolution_method {
    CONVOLUTION_BY_DEVICE,    /* -: as it does without a choice: Winograd, a product, oneDNN */
    CONVOLUTION_DIRECT,       /* d: oneDNN's direct one, on the images as they lie */
    CONVOLUTION_BLOCK_COPIES, /* b: that on copies in blocks of channels, the last one filled up */
    CONVOLUTION_PLAIN_COPIES, /* n: that on copies in NCHW */
    CONVOLUTION_PLANES,       /* p: convolution_planes.h */
    CONVOLUTION_LAST_COPIES,  /* l: oneDNN's direct one on copies with channels last */
    /* convolution_channels.h, */
    CONVOLUTION_LAST_CHANNELS, /* c: on copies with channels last */
    CONVOLUTION_BLOCK_CHANNELS /* f: on copies in blocks */
};

enum convolution_order { CONVOLUTION_IN_BLOCKS = 'B', CONVOLUTION_CHANNELS_LAST = 'L' };

/* How the choice has images lie; 0: it does not say. */
char convolution_choice_order(const char *choice);
/* -EINVAL and a sentence where the text is no choice. */
int convolution_methods_check(const char *choice, struct error *error);
/* How a node, a convolution or a gradient of one, is to be done; by the
 * device beyond the choice. */
enum convolution_method convolution_method_of(const struct graph *graph, const char *choice,
                                              const struct graph_node *node);
