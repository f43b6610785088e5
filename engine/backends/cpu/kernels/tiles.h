/* tiles.h: convolutions of images in bfloat16 with the matrix tiles of AMX (Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 1, chapter 18).
 *
 * A slice of the batch consists of blocks of up to TILE_ROWS samples. A block is [channel /
 * TILE_CHANNELS][pixel][sample of the block][channel % TILE_CHANNELS]. So the numbers of TILE_ROWS
 * samples for one pixel are one operand tile of 1 KiB, whatever the kernel and the stride of the
 * convolution. Nothing is padded, and taps outside of the image cost nothing. Sums are float32.
 * Without AMX, plain loops compute the same.
 *
 * operator_tiles.c has the times of these kernels and of oneDNN. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TILE_ROWS = 16, TILE_CHANNELS = 32, TILE_ELEMENTS = TILE_ROWS * TILE_CHANNELS };

/* The samples of a slice are divided evenly into as few blocks as possible. */
static inline int64_t tile_block_count(int64_t samples)
{
    return (samples + TILE_ROWS - 1) / TILE_ROWS;
}
static inline int64_t tile_block_first(int64_t samples, int64_t block)
{
    return samples * block / tile_block_count(samples);
}

/* A convolution, or the gradient by its data, as a sum over taps. Tap (i, k) of pixel (r, c) of y
 * reads pixel (row_map[r * kernel[0] + i], column_map[c * kernel[1] + k]) of x. A negative entry
 * means that it reads none. Channels are multiples of TILE_CHANNELS. */
struct tile_convolution {
    int64_t height, width, channels; /* of x */
    int64_t out_height, out_width, out_channels;
    int64_t kernel[2];
    const int32_t *row_map, *column_map;
    int64_t column_step; /* between the two pixels of y that are computed at once */
    bool relu;
    bool amx;
};

/* The gradient of the weights: pixel (r, c) of y has read pixel (r stride - padding + tap dilation)
 * of x. */
struct tile_gradient {
    int64_t height, width, channels;
    int64_t out_height, out_width, out_channels;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool amx;
};

/* A slice of images: how many samples, and of what size. */
struct tile_images {
    int64_t samples, channels, pixels;
};

/* The gradient with respect to batch norm's result: dy + other (which may be NULL), or 0 where the
 * ReLU gave 0. That is where `result` is not above 0 or, if it is NULL, where x factor[c] +
 * offset[c] is not above 0. If `factor` is NULL as well, there is no ReLU. The pass of the sums
 * stores the gradient in `masked` unless that is NULL. */
struct tile_norm_gradient {
    const uint16_t *dy, *other, *result;
    uint16_t *masked;
    const float *factor, *offset;
};

/* Samples have few channels, so they are unfolded: the numbers that one pixel of the first
 * convolution's result reads become its channels, and the kernel becomes 1x1. */
enum { TILE_UNFOLDED_MAX = 256 };
static inline int64_t tile_padded(int64_t channels)
{
    return (channels + TILE_CHANNELS - 1) / TILE_CHANNELS * TILE_CHANNELS;
}

/* type, name, arguments */
/* clang-format off */
#define TILE_KERNEL_LIST(KERNEL)                                                                   \
    /* One block of `rows` samples: y = x * weights + bias (which may be NULL), at least 0 if      \
     * `relu`. weights: tile_pack_weights(). scratch: tile_convolve_scratch() bytes */             \
    KERNEL(void, tile_convolve,                                                                    \
           (const struct tile_convolution *shape, const uint16_t *x, const uint16_t *weights,      \
            const float *bias, int64_t rows, void *scratch, uint16_t *y))                          \
    /* One block: dweights[tap][out][in] = (accumulate ? itself : 0) + sum of dy x. scratch:       \
     * tile_gradient_scratch() bytes */                                                            \
    KERNEL(void, tile_convolve_weights,                                                            \
           (const struct tile_gradient *shape, const uint16_t *x, const uint16_t *dy,              \
            int64_t rows, bool accumulate, void *scratch, float *dweights))                        \
    /* Unit `unit` of channels / 32 * out_channels / 32 * taps: weights[out][in] of one tap, whose \
     * rows are `row` apart, become two operand tiles. `transposed`: for the gradient by the data. \
     * Columns from `columns` on are zeros */                                                      \
    KERNEL(                                                                                        \
        void, tile_pack_weights,                                                                   \
        (const float *weights, int64_t row, int64_t columns, bool transposed, uint16_t *packed))   \
    /* Bytes of scratch for one call */                                                            \
    KERNEL(int64_t, tile_convolve_scratch, (const struct tile_convolution *shape))                 \
    KERNEL(int64_t, tile_gradient_scratch, (const struct tile_gradient *shape))                    \
    /* Over a slice of images. mean[c], and m2[c] = sum of squared deviations from it */           \
    KERNEL(void, tile_moments,                                                                     \
           (const uint16_t *x, const struct tile_images *images, float *mean, float *m2))          \
    /* y = x factor[c] + offset[c] + addend (which may be NULL), at least 0 if `relu`; y may be x  \
     * or addend */                                                                                \
    KERNEL(void, tile_normalize,                                                                   \
           (const uint16_t *x, const struct tile_images *images, const float *factor,              \
            const float *offset, const uint16_t *addend, bool relu, uint16_t *y))                  \
    /* sum_dy[c], and sum_dy_x[c] = sum of dy (x - mean[c]) */                                     \
    KERNEL(void, tile_norm_sums,                                                                   \
           (const uint16_t *x, const struct tile_norm_gradient *g,                                 \
            const struct tile_images *images, const float *mean, float *sum_dy, float *sum_dy_x))  \
    /* dx = dy a[c] + (x - mean[c]) b[c] + e[c]; dx may be any array of the gradient's */          \
    KERNEL(void, tile_norm_gradient,                                                               \
           (const uint16_t *x, const struct tile_norm_gradient *gradient,                          \
            const struct tile_images *images, const float *mean, const float *a, const float *b,   \
            const float *e, uint16_t *dx))                                                         \
    /* sum[c] */                                                                                   \
    KERNEL(void, tile_channel_sum,                                                                 \
           (const uint16_t *x, const struct tile_images *images, float *sum))                      \
    /* y = a + b, y = max(0, x), dx = dy where y > 0: `count` numbers, a multiple of 32; in place  \
     * allowed */                                                                                  \
    KERNEL(void, tile_add, (const uint16_t *a, const uint16_t *b, uint16_t *y, int64_t count))     \
    KERNEL(void, tile_relu, (const uint16_t *x, uint16_t *y, int64_t count))                       \
    KERNEL(void, tile_relu_backward,                                                               \
           (const uint16_t *dy, const uint16_t *y, uint16_t *dx, int64_t count))                   \
    /* As max_pool_forward and max_pool_backward; `images` is the larger one */                    \
    KERNEL(void, tile_max_pool,                                                                    \
           (const uint16_t *x, const struct pool_shape *shape, const struct tile_images *images,   \
            uint16_t *y, uint8_t *arg))                                                            \
    KERNEL(void, tile_max_pool_backward,                                                           \
           (const uint16_t *dy, const uint8_t *arg, const struct pool_shape *shape,                \
            const struct tile_images *images, uint16_t *dx))                                       \
    /* y[sample][channel]: the mean over the pixels, and the gradient by x */                      \
    KERNEL(void, tile_average, (const uint16_t *x, const struct tile_images *images, float *y))    \
    KERNEL(void, tile_average_backward,                                                            \
           (const float *dy, const struct tile_images *images, uint16_t *dx))                      \
    /* Between a slice in tiles and PyTorch's NCHW */                                              \
    KERNEL(void, tiles_to_plain, (const uint16_t *x, const struct tile_images *images, float *y))  \
    KERNEL(void, plain_to_tiles, (const float *x, const struct tile_images *images, uint16_t *y))  \
    /* y: tile_padded(channels * taps) channels of the pixels of the convolution's result */       \
    KERNEL(void, tile_unfold,                                                                      \
           (const float *x, const struct tile_gradient *shape, int64_t samples, uint16_t *y))
/* clang-format on */
