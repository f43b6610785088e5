/* convolution_planes_internal.h: the geometry that convolution_planes_geometry.c computes from a
 * convolution's shape, and with which convolution_planes.c runs. */
#pragma once

#include "engine/backends/cpu/convolution_planes.h"

enum { PLANES_LINE = 16 }; /* floats of a cache line */

/* One axis of the images. */
struct axis_tap {
    int kernel, pass, phase;
    int64_t offset; /* of the place that the tap reads in its plane */
};

struct axis {
    int64_t count;  /* how many results a pass has */
    int64_t source; /* extent of the source's images */
    int64_t step;   /* pixels of the source between two places of a plane */
    int64_t reach;  /* how many places a plane has beyond `count` */
    int phases, passes;
    int64_t *origin; /* [phases]: the source's pixel at place 0 */
    /* extent of the result's images, and the distance between results of a pass */
    int64_t result, result_step;
    int64_t *to; /* [passes]: the result's pixel of the pass's first result */
    struct axis_tap *taps;
    int tap_count;
};

struct pass {
    /* index of the pass's first `offset`, and how many of them there are for all channels and for
     * one */
    int64_t first_tap, depth, channel_depth;
    int64_t packed; /* the offset of the pass's packed weights, in floats */
    int64_t to[2];
};

struct planes_convolution {
    const struct kernels *kernels;
    enum onednn_direction direction;
    struct onednn_convolution_shape shape;
    struct axis axis[2];       /* rows, columns */
    int64_t channels, results; /* per group: channels of planes, and rows of the product */
    int64_t turn;              /* of how many channels the planes exist at the same time */
    /* rows of the product at once, and all rows rounded up to whole blocks */
    int64_t block, padded;
    int64_t panel; /* rows of the second matrix that one product takes at most */
    int64_t taps;  /* the taps of all passes */
    struct pass *passes;
    int pass_count;
    /* by pass, for each row of the products' second matrix: where it begins, in floats */
    int32_t *offset;
    /* for the same rows: where the weight is among PyTorch's weights of a result */
    int32_t *weight;
    int64_t group_packed;

    int64_t rows, samples; /* of a block: rows of results; if that is all rows, also samples */
    int parts;             /* 0: the caller divides the samples */
    int64_t splits;        /* into how many ranges the result channels are divided */
    /* parts divide the result channels of the gradient by the weights, and each works on all
     * blocks */
    bool divides_weights;
    bool by_rows;                                /* every row of results begins with a new vector */
    int64_t row_stride, sample_columns, columns; /* distances within the results, in floats */
    int64_t pitch, sample_stride, plane_stride;  /* distances within the planes, in floats */
    int32_t *place; /* for each vector of columns: where it begins in a plane */
    int vector;
};

/* The lowest multiple of `step` that is not below `value`. */
static inline int64_t planes_round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

/* Finds the source pixels and the kernel's positions along axis `d`. -1: no memory, as in all
 * functions that return int. */
int planes_describe_axis(struct planes_convolution *planes, int d);
/* Chooses the size of a block, how blocks are divided into parts, and how they are stored. In turn:
 * the planes of some channels at a time, where all do not fit. */
void planes_choose_block(struct planes_convolution *planes, bool in_turn);
/* Lists where each vector of the results' columns begins in a plane. */
int planes_list_places(struct planes_convolution *planes);
/* Lists the passes, and the rows of the products' second matrix. */
int planes_list_passes(struct planes_convolution *planes);

/* How many planes a channel has. */
int64_t planes_phase_count(const struct planes_convolution *planes);
/* How many floats of a row of the product one sample takes, with `rows` rows of results. */
int64_t planes_result_columns(const struct planes_convolution *planes, int64_t rows);
int64_t planes_result_rows(const struct planes_convolution *planes);
/* The least number of channels of results in a part, and how many such parts there are. */
int64_t planes_split_grain(const struct planes_convolution *planes);
int64_t planes_split_most(const struct planes_convolution *planes);
