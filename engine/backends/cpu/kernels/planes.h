/* planes.h: convolutions over planes: images of one channel each, with their padding around them,
 * whose vectors are neighbouring pixels. What one position of the kernel adds to the result is then
 * a product of one number with the plane from some place on: a product of matrices in which row r
 * of the second one begins at offset[r] of the planes, whatever kernel, dilation and groups are.
 * With a stride the pixels are dealt out to as many planes, so that neighbours stay neighbours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The columns of the products are vectors of pixels; vector v begins at place[v] of the planes. */
struct planes_columns {
    int64_t vectors;
    const int32_t *place;
};

/* One plane from a part of an image: of its row t and column u, when there is such a pixel, that in
 * row row_origin + t step, column column_origin + u step; 0 elsewhere. */
struct planes_gather {
    int64_t height, width, pixel; /* of the image; floats from pixel to pixel */
    int64_t row_origin, column_origin, row_step, column_step;
    int64_t rows, columns; /* of the plane */
};

/* Results back into an image: row t, column u become the pixel as above, where there is one. */
struct planes_scatter {
    struct planes_gather image;
    int64_t row_stride; /* floats from one row of results to the next */
    bool relu;
};

enum { PLANES_VECTORS = 8 }; /* the most that planes_multiply() takes in one round */
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
