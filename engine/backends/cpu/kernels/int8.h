/* int8.h: products of integers of 8 bits: rows of unsigned numbers, which a layer quantizes while
 * it runs, and weights that were quantized before. Sums are exact, so they depend on no order.
 *
 * Packed weights are [group][4 of the depth][vector][INT8_LANES][4]: what one instruction of VNNI
 * multiplies and adds lies together. Behind them stands the sum of each column's weights, int32, by
 * which the products are corrected for the rows' zero points. */
#pragma once

#include "base/alignment.h"
#include "engine/backends/cpu/kernels/amx_tiles.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    INT8_LANES = 16,
    INT8_VECTORS_MAX = 4,   /* of a group */
    INT8_ROW_ALIGNMENT = 4, /* what is multiplied together */
    INT8_STATE_ZERO = 128,  /* zero point of a recurrent layer's state */
    INT8_STATE_RANGE = 127, /* a state of 1 is so many above it */
};

/* What the processor multiplies with. */
enum int8_instructions {
    INT8_WORDS, /* 16 bits */
    INT8_VNNI,  /* AVX512_VNNI */
    INT8_AMX,   /* AMX-INT8 for many rows and long sums, else AVX512_VNNI */
};

/* How weights [rows, depth] are packed. A vector has INT8_LANES rows of the weights, which are
 * columns of the product. */
struct int8_packing {
    int64_t rows, depth;
    int64_t groups;
    int vectors; /* of a group */
    /* of a recurrent layer: vector v of group g has rows of gate v, from g * INT8_LANES on; 0: the
     * rows follow each other */
    int64_t hidden;
};

static inline struct int8_packing int8_packing_of(int64_t rows, int64_t depth, int gates)
{
    struct int8_packing packing = {.rows = rows, .depth = depth, .vectors = gates};
    int64_t vectors;

    if (gates) {
        packing.hidden = rows / gates;
        packing.groups = (packing.hidden + INT8_LANES - 1) / INT8_LANES;
        return packing;
    }
    vectors = (rows + INT8_LANES - 1) / INT8_LANES;
    packing.vectors = 1;
    while (packing.vectors < INT8_VECTORS_MAX && packing.vectors < vectors)
        packing.vectors++;
    packing.groups = (vectors + packing.vectors - 1) / packing.vectors;
    return packing;
}

/* The depth in steps of four. */
static inline int64_t int8_packing_steps(const struct int8_packing *packing)
{
    return (packing->depth + 3) / 4;
}

static inline size_t int8_packing_group_bytes(const struct int8_packing *packing)
{
    return (size_t)int8_packing_steps(packing) * (size_t)packing->vectors * INT8_LANES * 4;
}

/* Where the sums of the columns begin. */
static inline size_t int8_packing_sums(const struct int8_packing *packing)
{
    return (size_t)packing->groups * int8_packing_group_bytes(packing);
}

static inline size_t int8_packing_bytes(const struct int8_packing *packing)
{
    return int8_packing_sums(packing) +
           (size_t)packing->groups * (size_t)packing->vectors * INT8_LANES * sizeof(int32_t);
}

/* Bytes from one quantized row to the next. */
static inline size_t int8_row_bytes(int64_t depth)
{
    return align_up((size_t)depth, INT8_ROW_ALIGNMENT);
}

/* Rows that were quantized: x is scale (value - zero). */
struct int8_rows {
    uint8_t *values;
    int64_t row; /* bytes from one row to the next */
    float *scale;
    int32_t *zero;
};

/* y = x weightᵀ + bias */
struct int8_linear {
    struct int8_packing packing;
    struct int8_rows x;
    const int8_t *weights; /* packed */
    const float *scale;    /* of the weights' rows */
    const float *bias;     /* NULL: none */
    float *y;              /* of the first row and group */
    int64_t y_row;         /* floats from one row to the next */
    int64_t y_group;       /* and from one group, and one vector of it */
    int64_t y_vector;
    bool relu; /* y is at least 0 */
    enum int8_instructions instructions;
};

/* The products of a recurrent layer's state at one time step. */
struct int8_state {
    struct int8_packing packing;
    const int8_t *weights;
    const float *scale;    /* [group][vector][INT8_LANES], times that of the state */
    const uint8_t *before; /* [B][row]; NULL: the state is 0 */
    uint8_t *after;
    int64_t row;
    enum int8_instructions instructions;
};

/* clang-format off */
#define INT8_KERNEL_LIST(KERNEL)                                                                   \
    KERNEL(void, int8_pack,                                                                        \
           (const struct int8_packing *packing, const int8_t *weights, int8_t *packed))            \
    KERNEL(void, int8_unpack,                                                                      \
           (const struct int8_packing *packing, const int8_t *packed, int8_t *weights))            \
    /* Quantizes each row of x by its least and its largest number, and 0 between them. A number   \
     * that is not finite makes the scale so */                                                    \
    KERNEL(void, int8_quantize_rows,                                                               \
           (const float *x, int64_t x_row, int64_t rows, int64_t depth,                            \
            const struct int8_rows *quantized))                                                    \
    /* y = x inverse_scale + zero, rounded, from 0 to 255 */                                       \
    KERNEL(void, quantize,                                                                         \
           (const float *x, int64_t count, float inverse_scale, float zero, uint8_t *y))           \
    /* y = (x - zero) scale */                                                                     \
    KERNEL(void, dequantize,                                                                       \
           (const uint8_t *x, int64_t count, float scale, float zero, float *y))                   \
    /* y = x as the same integers would hold it; what is no number stays so */                     \
    KERNEL(void, fake_quantize,                                                                    \
           (const float *x, int64_t count, float scale, float zero, float *y))                     \
    /* dx = dy, or 0 where x lies outside of 0 to 255 of these integers */                         \
    KERNEL(void, fake_quantize_backward,                                                           \
           (const float *dy, const float *x, int64_t count, float scale, float zero, float *dx))   \
    /* Each row of x by its own range: symmetric, -127 to 127, else as int8_quantize_rows does */  \
    KERNEL(void, fake_quantize_rows,                                                               \
           (const float *x, int64_t rows, int64_t width, bool symmetric, float *y))                \
    /* range[0] becomes at most the least number, range[1] at least the largest */                 \
    KERNEL(void, widen_range, (const float *x, int64_t count, float range[2]))                     \
    /* A state, whose numbers are from -1 to 1 */                                                  \
    KERNEL(void, int8_quantize_state, (const float *x, int64_t count, uint8_t *quantized))         \
    KERNEL(void, int8_linear,                                                                      \
           (const struct int8_linear *task, int64_t rows, int64_t first_group, int64_t end_group)) \
    /* sums[r * sums_row + v * INT8_LANES + lane] for the rows from `row` on and the gates of a    \
     * group. `tiles` is what the call before left; at first 0 */                                  \
    KERNEL(void, int8_multiply_state,                                                              \
           (const struct int8_state *state, int64_t row, int64_t rows, int64_t group, float *sums, \
            int64_t sums_row, struct amx_tiles *tiles))                                           \
    /* Gives the tile registers back, so that the system need not save them */                     \
    KERNEL(void, amx_end_tiles, (const struct amx_tiles *tiles))
/* clang-format on */
