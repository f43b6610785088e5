/* tiles_multiply.h: within this folder: multiplies lists of tiles. */
#pragma once

#include "engine/backends/cpu/kernels/tiles.h"

/* One step of a sum of products. `a` is [row][32 of the depth], `b` is [16 pairs of the depth][16
 * columns][2]. There are two of each, and four results. */
struct tile_step {
    const uint16_t *a0, *a1, *b;
};

struct tile_product {
    const struct tile_step *steps;
    int64_t count;
    int64_t b_next; /* elements from the first b to the second */
    int64_t rows;   /* of a and of the results */
    bool accumulate;
    bool amx;
    float *c[4];   /* a0 b0, a0 b1, a1 b0, a1 b1 */
    int64_t c_row; /* floats from one row of the results to the next */
};
