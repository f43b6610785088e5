/* convolution_unfolded_internal.h: the geometry that convolution_unfolded_geometry.c computes from
 * a convolution's shape, and with which convolution_unfolded.c runs. */
#pragma once

#include "engine/backends/cpu/convolution_unfolded.h"

/* Rows of one product: its first matrix stays in the first-level cache. */
enum { UNFOLDED_DEPTH_MAX = 256 };

struct unfolded_axis {
    int64_t taps, results, extent; /* `extent` of the source */
    int32_t *source;               /* [result][tap]: the source's place; -1: nothing to read */
    int32_t *order;                /* of results */
};

struct unfolded_convolution {
    const struct kernels *kernels;
    enum onednn_direction direction;
    struct onednn_convolution_shape shape;
    int parts;
    struct unfolded_axis axis[2];
    int64_t taps;
    int64_t source_channels, channels; /* `channels` of the vectors: of y, or of x's gradient */
    int64_t vectors;
    int64_t pixels; /* results of all samples */
    int64_t rows;   /* of a product: pixels, or for the gradient by the weights source channels */
    int64_t panels; /* how many of so many rows there are for one group of vectors */
    int64_t groups; /* into which the vectors are divided, so that there are enough units */
    int64_t depth;  /* the most of one product */
};

static inline bool unfolded_is_gradient(const struct unfolded_convolution *unfolded)
{
    return unfolded->direction == ONEDNN_BACKWARD_WEIGHTS;
}

/* Lists along axis `d` what each result reads, and the order of the results. -ENOMEM. */
int unfolded_describe_axis(struct unfolded_convolution *unfolded, int d);
/* Chooses panels, groups of vectors, and the most rows of a product. */
void unfolded_divide_work(struct unfolded_convolution *unfolded);
