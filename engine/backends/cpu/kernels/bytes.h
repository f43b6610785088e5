/* bytes.h: products of bytes, such as those of images, and float32 weights, by integers. A weight is
 * an integer of BYTES_DIGITS digits to the base 256, -128 to 127 each, times a factor of its row.
 * So the products of the bytes with one digit are sums of integers of 8 bits, which are exact.
 *
 * Packed digits are as int8.h packs the gates of a recurrent layer, [group][4 of the depth][digit]
 * [INT8_LANES][4], the highest digit first; the depth is filled up with zeros. */
#pragma once

#include "engine/backends/cpu/kernels/int8.h"

enum {
    BYTES_DIGITS = 3,
    BYTES_BASE = 256,
    BYTES_DEPTH_ALIGNMENT = 64, /* a row of a tile */
    BYTES_ROWS = 2 * AMX_ROWS   /* that are multiplied together */
};

/* y = scale (x digitsᵀ - offset) + bias */
struct bytes_linear {
    struct int8_packing packing; /* `hidden` is the number of results */
    const uint8_t *x;
    int64_t x_row;         /* bytes from one row to the next: the padded depth */
    const int8_t *digits;  /* packed */
    const int32_t *offset; /* [group][digit][INT8_LANES] */
    const float *scale;    /* [group][INT8_LANES]: of the lowest digit */
    const float *bias;     /* NULL: none */
    float *y;
    int64_t y_row; /* floats from one row to the next */
    bool relu;     /* y is at least 0 */
    enum int8_instructions instructions;
};

/* clang-format off */
#define BYTES_KERNEL_LIST(KERNEL)                                                                  \
    /* The groups of results of `rows` rows. Behind the depth, and in BYTES_ROWS - 1 rows behind    \
     * the last one, x may have any bytes */                                                       \
    KERNEL(void, bytes_linear,                                                                     \
           (const struct bytes_linear *task, int64_t rows, int64_t first_group, int64_t end_group))
/* clang-format on */
