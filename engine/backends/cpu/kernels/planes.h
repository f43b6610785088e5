/* planes.h: convolutions over planes. A plane is the image of one channel with its padding, and a
 * vector of it is some neighbouring pixels. One position of the kernel multiplies the plane, from
 * some place on, by one number, and adds it to the result. So a convolution is a product of
 * matrices, in which row r of the second matrix begins at offset[r] of the planes, for any kernel,
 * dilation and groups. With a stride, the pixels are distributed over as many planes, so that
 * pixels of one vector stay neighbours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The columns of the products are vectors of pixels; vector v begins at place[v] of the planes. */
struct planes_columns {
    int64_t vectors;
    const int32_t *place;
};

/* Makes one plane of a part of an image. The place in row t and column u gets the pixel in row
 * row_origin + t step, column column_origin + u step, or 0 if there is no such pixel. */
struct planes_gather {
    int64_t height, width, pixel; /* of the image; `pixel`: floats from one pixel to the next */
    int64_t row_origin, column_origin, row_step, column_step;
    int64_t rows, columns; /* of the plane */
    int64_t prefetch;      /* how many floats ahead of its use a row is prefetched; 0: not */
};

/* Writes results back into an image: row t, column u become the pixel as above, if there is one. */
struct planes_scatter {
    struct planes_gather image;
    int64_t row_stride; /* floats from one row of results to the next */
    bool relu;
};

enum { PLANES_VECTORS = 8 }; /* the most vectors that planes_multiply() computes in one round */
enum { PLANES_BEYOND = 16 };

/* clang-format off */
#define PLANES_KERNEL_LIST(KERNEL)                                                                \
    /* how many of so many rows planes_multiply() takes at once, so that they divide evenly */    \
    KERNEL(int64_t, planes_block, (int64_t rows))                                                 \
    /* c[row][column] = (accumulate ? itself : 0) + sum over r < depth of a[r][row] b[offset[r] + \
     * column's place]; `rows` at most planes_block(rows), a is [depth][rows] */                  \
    KERNEL(void, planes_multiply,                                                                 \
           (int64_t rows, int64_t depth, const float *a, const float *b, const int32_t *offset,   \
            const struct planes_columns *columns, float *c, int64_t c_stride, bool accumulate))   \
    /* dweight[row * dweight_stride + index[r]] += sum over the columns of dy[row][column]        \
     * b[offset[r] + column's place], for r < depth */                                            \
    KERNEL(void, planes_gradient,                                                                 \
           (int64_t rows, int64_t depth, const float *dy, int64_t dy_stride, const float *b,      \
            const int32_t *offset, const struct planes_columns *columns, const int32_t *index,    \
            float *dweight, int64_t dweight_stride))                                              \
    KERNEL(float, planes_sum, (const float *x, int64_t vectors))                                  \
    /* up to PLANES_BEYOND floats behind the plane are overwritten */                             \
    KERNEL(void, planes_gather,                                                                   \
           (const struct planes_gather *shape, const float *image, float *plane))                 \
    KERNEL(void, planes_scatter,                                                                  \
           (const struct planes_scatter *shape, const float *result, float bias, float *image))
/* clang-format on */
