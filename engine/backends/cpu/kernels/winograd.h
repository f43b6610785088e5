/* winograd.h: convolutions of 3x3 with stride 1 by Winograd's algorithm F(4x4, 3x3) (Lavin and Gray
 * 2016, arXiv:1509.09308). Tiles of 4x4 of the result are transformed to 36 "frequencies". Each
 * frequency is a matrix product over the channels. That takes a quarter of the multiplications.
 *
 * Images are in blocks of kernels->vector channels (struct image_layout). Transformed data is
 * [frequency][channel / block][row][channel % block]; its rows are tiles, or channels for
 * transformed weights. Weights have oneDNN's layout OIhw16i16o (OIhw8i8o): [out / block][in /
 * block][3][3][in % block][out % block]. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WINOGRAD_TILE = 4, WINOGRAD_FREQUENCIES = 36 };

struct winograd_shape {
    int64_t height, width;         /* of x */
    int64_t out_height, out_width; /* of y: height + 2 padding - 2 */
    int64_t padding;
};

/* A range of transformed tiles. */
struct winograd_tiles {
    int64_t first, count;     /* the tiles are numbered through samples, rows and columns of y */
    int64_t rows;             /* for how many tiles a channel block of `data` has room */
    int64_t frequency_stride; /* floats from one frequency to the next */
};

/* If tasks divide the products, they divide the frequencies. */
struct winograd_product {
    int64_t first_frequency, end_frequency;
    int64_t tiles, channels, out_channels;
    int64_t x_stride, weight_stride, y_stride; /* floats from one frequency to the next */
};

/* type, name, arguments */
/* clang-format off */
#define WINOGRAD_KERNEL_LIST(KERNEL)                                                             \
    /* x -> data; `x` is sample 0 of the numbering. Beyond the image there are zeros */          \
    KERNEL(void, winograd_transform_data,                                                        \
           (const float *x, const struct winograd_shape *shape, int64_t channels,                \
            const struct winograd_tiles *tiles, float *data))                                    \
    /* dy -> data, for the gradient of the weights */                                            \
    KERNEL(void, winograd_transform_gradient,                                                    \
           (const float *dy, const struct winograd_shape *shape, int64_t channels,               \
            const struct winograd_tiles *tiles, float *data))                                    \
    /* weights -> transformed, the part of block `out_block` of the output channels and          \
     * `in_block` of the input channels; rows are input channels. `rotated`: for the gradient by \
     * the data, weights turned by 180 degrees; rows are output channels */                      \
    KERNEL(void, winograd_transform_weights,                                                     \
           (const float *weights, int64_t in_channels, int64_t out_channels, int64_t in_block,   \
            int64_t out_block, bool rotated, int64_t frequency_stride, float *transformed))      \
    /* y[tile][out] = sum over the channels of x[tile][channel] weight[channel][out] */          \
    KERNEL(                                                                                      \
        void, winograd_multiply,                                                                 \
        (const struct winograd_product *product, const float *x, const float *weight, float *y)) \
    /* dweight[channel][out] = (accumulate ? dweight : 0) + sum over the tiles of                \
     * x[tile][channel] y[tile][out] */                                                          \
    KERNEL(void, winograd_multiply_transposed,                                                   \
           (const struct winograd_product *product, const float *x, const float *y,              \
            bool accumulate, float *dweight))                                                    \
    /* data -> y, + bias[channel] unless NULL, at least 0 if `relu` */                           \
    KERNEL(void, winograd_finish,                                                                \
           (const float *data, const struct winograd_shape *shape, int64_t channels,             \
            const struct winograd_tiles *tiles, const float *bias, bool relu, float *y))         \
    /* transformed gradient of the weights -> their gradient, the part of the two blocks */      \
    KERNEL(void, winograd_finish_weights,                                                        \
           (const float *transformed, int64_t in_channels, int64_t in_block, int64_t out_block,  \
            int64_t frequency_stride, bool accumulate, float *dweights))
/* clang-format on */
