/* digits.h: products of matrices of float32 numbers by integers of 8 bits, which AMX multiplies 16
 * times as fast. Each row of an operand is integers of three digits to the base 256, -128 to 127
 * each, times a factor of the row: the integers hold the row's largest number to 24 bits. All sums
 * of products of two digits are exact. The products that count less than 2^-32 are left out (Ozaki
 * et al. 2012, doi:10.1007/s11075-011-9478-1, split matrices in this way; Ootomo et al. 2024,
 * arXiv:2306.11975, by integers of 8 bits).
 *
 * An integer is as exact as the largest number of its row allows, so a small number with a large
 * partner in the other operand would lose what counts. Each feature is therefore multiplied by a
 * power of two, and its weights divided by it, so that the weights of all features are about as
 * large.
 *
 * The rows may be bytes as well, such as those of images, which are one digit without a sign.
 *
 * Packed rows are [row / AMX_ROWS][depth / 64][digit][AMX_ROWS][64], the highest digit first: tiles
 * as they lie. Packed weights are as int8.h packs the gates of a recurrent layer, a gate for each
 * digit: [group][depth / 4][digit][INT8_LANES][4]. In both zeros fill up the depth. */
#pragma once

#include "engine/backends/cpu/kernels/int8.h"

enum {
    DIGITS = 3,
    DIGITS_BASE = 256,
    /* the largest integer of three digits, less what rounding its factor may add */
    DIGITS_MOST = ((INT8_MAX * DIGITS_BASE) + INT8_MAX) * DIGITS_BASE + INT8_MAX - 15,
    /* How many times the root of the mean square a row's largest number may be; of weights, some of
     * which may meet zeros, how many times the mean size. An integer is off by at most half of it,
     * 2^-24 of the largest. So a sum of products is off by about as much as one of float32 numbers
     * if the largest is four times that root, as it is in most rows. */
    DIGITS_PEAK_MOST = 16,
    DIGITS_STEP = 64, /* of the depth: a row of a tile */
    DIGITS_TILE_BYTES = AMX_ROWS * DIGITS_STEP,
    BYTES_ROWS = 2 * AMX_ROWS /* that bytes_linear() multiplies together */
};

/* The sums of so many products fit 32 bits: three of -128 and -128, and, less what the mean makes
 * of them, 255 and -128. */
enum { DIGITS_DEPTH_MOST = INT32_MAX / (2 * 255 * 128) };

static inline int64_t digits_steps(int64_t depth)
{
    return (depth + DIGITS_STEP - 1) / DIGITS_STEP;
}

/* Bytes of packed rows. */
static inline size_t digits_rows_bytes(int64_t rows, int64_t depth, int digits)
{
    return (size_t)((rows + AMX_ROWS - 1) / AMX_ROWS * digits_steps(depth) * digits) *
           DIGITS_TILE_BYTES;
}

/* y = row_scale scale (x weightsᵀ - offset) + bias */
struct digits_linear {
    int64_t steps;         /* of the depth */
    int64_t out;           /* results of a row */
    const void *x;         /* packed rows, aligned to 64 bytes */
    const float *x_scale;  /* of the rows, which are digits; NULL: they are bytes */
    const int8_t *weights; /* packed, aligned to 64 bytes */
    const float *scale;    /* of the lowest digit, [group][INT8_LANES] */
    const int32_t *offset; /* for bytes: [group][digit][INT8_LANES] */
    const float *bias;     /* NULL: none */
    float *y;
    int64_t y_row; /* floats from one row to the next */
    bool adds;     /* the results are added to y */
    bool relu;     /* then y is at least 0 */
};

/* clang-format off */
#define DIGITS_KERNEL_LIST(KERNEL)                                                                 \
    /* Rows [rows][depth], times the balance [depth] of their features (digit_weights.h), as       \
     * packed rows and their factors. false: a row has then a number that is not finite, or more   \
     * than DIGITS_PEAK_MOST times the root of the mean square of those that are not 0, or all are \
     * too small for a factor */                                                                   \
    KERNEL(bool, digits_pack_rows,                                                                 \
           (const float *x, const float *balance, int64_t rows, int64_t depth, int8_t *packed,     \
            float *scale))                                                                         \
    KERNEL(void, digits_pack_bytes,                                                                \
           (const uint8_t *x, int64_t rows, int64_t depth, uint8_t *packed))                       \
    /* All results of the rows, which are digits */                                                \
    KERNEL(void, digits_linear, (const struct digits_linear *task, int64_t rows))                  \
    /* All results of the rows, which are bytes; behind them are as many as fill BYTES_ROWS */     \
    KERNEL(void, bytes_linear, (const struct digits_linear *task, int64_t rows))
/* clang-format on */
