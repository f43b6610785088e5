/* unfold.h: convolutions as products of unfolded images. The rows of the first matrix are pixels of
 * the result, its columns are what one position of the kernel reads there, and the second matrix is
 * the weights, whose rows are vectors of result channels. planes_multiply() of planes.h multiplies
 * them. Nothing is copied but the few rows that are multiplied next (Chellapilla, Puri, Simard:
 * High Performance Convolutional Neural Networks for Document Processing, 2006). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* In all of these, channel c of a pixel lies at pixel[…][channel[c]]. */

/* clang-format off */
#define UNFOLD_KERNEL_LIST(KERNEL)                                                                \
    /* packed[c * rows + r] = channel c of pixel r, or 0 where pixel[r] is NULL */                \
    KERNEL(void, unfold_pixels,                                                                   \
           (int64_t rows, const float *const *pixel, int64_t channels, const int64_t *channel,    \
            float *packed))                                                                       \
    /* packed[p * rows + r] = channel r of pixel p */                                             \
    KERNEL(void, unfold_channels,                                                                 \
           (int64_t pixels, const float *const *pixel, int64_t rows, const int64_t *channel,      \
            float *packed))                                                                       \
    /* The vectors of the pixels' channels: vector v of pixel p lies at packed + v * stride +     \
     * p * its lanes. Lanes beyond the last channel are 0. */                                     \
    KERNEL(void, unfold_vectors,                                                                  \
           (int64_t pixels, const float *const *pixel, int64_t channels, const int64_t *channel,  \
            float *packed, int64_t stride))                                                       \
    /* channel c of pixel p = result[p * stride + c] + bias[c] (NULL: none), then ReLU if asked */ \
    KERNEL(void, unfold_store,                                                                    \
           (int64_t pixels, float *const *pixel, int64_t channels, const int64_t *channel,        \
            const float *result, int64_t stride, const float *bias, bool relu))
/* clang-format on */
