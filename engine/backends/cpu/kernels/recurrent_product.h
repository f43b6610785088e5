/* recurrent_product.h: products of rows and the weights of a recurrent layer, which are packed so
 * that the sums of some units' gates stay in registers. The order of a sum depends on nothing but
 * its length. */
#pragma once

#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

/* Rows that are multiplied together, with up to four vectors of columns: as many sums as leave
 * registers for the factors. */
enum { ROWS = REGISTERS == 32 ? 6 : 3, VECTORS = RECURRENT_BACKWARD_VECTORS };

/* ---- product --------------------------------------------------------------------------------- */

/* sum[r][v] = the sum over k of x[r * x_row + k] times vector v of weight[k]. */
static ALWAYS_INLINE void multiply(const int rows, const int vectors, const float *x, int64_t x_row,
                                   const float *weight, int64_t depth, float *sums)
{
    vector sum[ROWS][VECTORS];

#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = (vector){0};
    for (int64_t k = 0; k < depth; k++, weight += vectors * VECTOR) {
        vector factor[VECTORS];

#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            factor[v] = *(const vector *)(weight + v * VECTOR);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[r][v] += x[r * x_row + k] * factor[v];
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            *(vector *)(sums + (r * VECTORS + v) * VECTOR) = sum[r][v];
}

static ALWAYS_INLINE void multiply_vectors(const int rows, int vectors, const float *x,
                                           int64_t x_row, const float *weight, int64_t depth,
                                           float *sums)
{
    switch (vectors) {
    case 1:
        multiply(rows, 1, x, x_row, weight, depth, sums);
        return;
    case 2:
        multiply(rows, 2, x, x_row, weight, depth, sums);
        return;
    case 3:
        multiply(rows, 3, x, x_row, weight, depth, sums);
        return;
    default:
        multiply(rows, 4, x, x_row, weight, depth, sums);
    }
}

/* `sums` is [ROWS][VECTORS][VECTOR]. x may be NULL: zeros. */
static inline void multiply_rows(int64_t rows, int vectors, const float *x, int64_t x_row,
                                 const float *weight, int64_t depth, float *sums)
{
    if (!x) {
        for (int64_t i = 0; i < rows * VECTORS * VECTOR; i++)
            sums[i] = 0.0f;
        return;
    }
    switch (rows) {
    case 1:
        multiply_vectors(1, vectors, x, x_row, weight, depth, sums);
        return;
    case 2:
        multiply_vectors(2, vectors, x, x_row, weight, depth, sums);
        return;
    case 3:
        multiply_vectors(3, vectors, x, x_row, weight, depth, sums);
        return;
#if defined(__AVX512F__)
    case 4:
        multiply_vectors(4, vectors, x, x_row, weight, depth, sums);
        return;
    case 5:
        multiply_vectors(5, vectors, x, x_row, weight, depth, sums);
        return;
#endif
    default:
        multiply_vectors(ROWS, vectors, x, x_row, weight, depth, sums);
    }
}

/* The last of the fewest tiles of rows from `row` on that are about equal. */
static inline int64_t tile_rows(int64_t row, int64_t end)
{
    int64_t tiles = (end - row + ROWS - 1) / ROWS;

    return (end - row + tiles - 1) / tiles;
}

static inline int64_t minimum(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Copies the weights [gates hidden, depth] of a panel of VECTOR units in the order
 * [panel][k][gate][unit]. */
static inline void pack_panel(const float *weights, int64_t gates, int64_t hidden, int64_t depth,
                              int64_t panel, float *packed)
{
    int64_t unit = panel * VECTOR, units = minimum(VECTOR, hidden - unit);

    packed += panel * depth * gates * VECTOR;
    for (int64_t gate = 0; gate < gates; gate++, packed += VECTOR) {
        KERNEL_NAME(matrix_transpose_to)
        (weights + (gate * hidden + unit) * depth, depth, units, depth, packed, gates * VECTOR);
        for (int64_t k = 0; units < VECTOR && k < depth; k++)
            for (int64_t u = units; u < VECTOR; u++)
                packed[k * gates * VECTOR + u] = 0.0f;
    }
}
