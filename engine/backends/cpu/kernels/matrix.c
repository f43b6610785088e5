/* matrix.c: copies parts of matrices, because oneDNN needs matrices whose rows are contiguous. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t mask __attribute__((vector_size(LANES * sizeof(float))));
typedef uint32_t pairs __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef uint16_t halves_anywhere
    __attribute__((vector_size(LANES * sizeof(uint16_t)), aligned(sizeof(uint16_t)), may_alias));
typedef float vector_anywhere
    __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

void KERNEL_NAME(matrix_copy)(const float *restrict from, int64_t from_row, int64_t rows,
                              int64_t columns, float *restrict to, int64_t to_row, bool accumulate)
{
    for (int64_t r = 0; r < rows; r++, from += from_row, to += to_row) {
        if (accumulate)
            for (int64_t c = 0; c < columns; c++)
                to[c] += from[c];
        else
            for (int64_t c = 0; c < columns; c++)
                to[c] = from[c];
    }
}

/* Lane j of the rows of a pair after one stage of the transposition: lanes of the first row count
 * from 0, those of the second from LANES. */
#define LOW_LANE(j, half) ((j) & (half) ? LANES + (j) - (half) : (j))
#define HIGH_LANE(j, half) ((j) & (half) ? LANES + (j) : (j) + (half))
#define FOUR_LANES(LANE, half, j) \
    LANE(j, half), LANE(j + 1, half), LANE(j + 2, half), LANE(j + 3, half)
#if defined(__AVX512F__)
#define ALL_LANES(LANE, half)                                                        \
    FOUR_LANES(LANE, half, 0), FOUR_LANES(LANE, half, 4), FOUR_LANES(LANE, half, 8), \
        FOUR_LANES(LANE, half, 12)
#elif defined(__AVX2__)
#define ALL_LANES(LANE, half) FOUR_LANES(LANE, half, 0), FOUR_LANES(LANE, half, 4)
#else
#define ALL_LANES(LANE, half) FOUR_LANES(LANE, half, 0)
#endif

/* One stage of the transposition of LANES rows: in each square of 2 `half` elements, the upper
 * right and the lower left quarter are exchanged. */
static inline __attribute__((always_inline)) void swap_quarters(vector row[LANES], int half)
{
    const mask low = {ALL_LANES(LOW_LANE, half)}, high = {ALL_LANES(HIGH_LANE, half)};

#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        if (i & half)
            continue;
        vector a = row[i], b = row[i + half];

        row[i] = __builtin_shuffle(a, b, low);
        row[i + half] = __builtin_shuffle(a, b, high);
    }
}

/* Writes the transposed square of rows, whose elements have four bytes. */
static inline __attribute__((always_inline)) void store_transposed(vector row[LANES], char *to,
                                                                   int64_t to_row_bytes)
{
#pragma GCC unroll 4
    for (int half = 1; half < LANES; half *= 2)
        swap_quarters(row, half);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        memcpy(to + i * to_row_bytes, &row[i], sizeof row[i]);
}

static inline void transpose_square(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    vector row[LANES];

#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        row[i] = (vector) * (const vector_anywhere *)(const void *)(from + i * from_row);
    store_transposed(row, (char *)to, to_row * (int64_t)sizeof *to);
}

/* Two squares one below the other: the numbers of two rows become pairs. */
static inline void transpose_halves(const uint16_t *from, int64_t from_row, uint16_t *to,
                                    int64_t to_row)
{
    vector row[LANES];

#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        const uint16_t *even = from + 2 * i * from_row;
        pairs low = __builtin_convertvector(*(const halves_anywhere *)even, pairs);
        pairs high = __builtin_convertvector(*(const halves_anywhere *)(even + from_row), pairs);

        row[i] = (vector)(low | high << 16);
    }
    store_transposed(row, (char *)to, to_row * (int64_t)sizeof *to);
}

void KERNEL_NAME(matrix_transpose_to)(const float *restrict from, int64_t from_row, int64_t rows,
                                      int64_t columns, float *restrict to, int64_t to_row)
{
    for (int64_t r = 0; r < rows; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            int64_t height = rows - r < LANES ? rows - r : LANES;
            int64_t width = columns - c < LANES ? columns - c : LANES;

            if (height == LANES && width == LANES) {
                transpose_square(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
                continue;
            }
            for (int64_t j = c; j < c + width; j++)
                for (int64_t i = r; i < r + height; i++)
                    to[j * to_row + i] = from[i * from_row + j];
        }
}

void KERNEL_NAME(matrix_transpose)(const float *restrict from, int64_t from_row, int64_t rows,
                                   int64_t columns, float *restrict to)
{
    KERNEL_NAME(matrix_transpose_to)(from, from_row, rows, columns, to, rows);
}

void KERNEL_NAME(matrix_transpose_bfloat16)(const uint16_t *restrict from, int64_t from_row,
                                            int64_t rows, int64_t columns, uint16_t *restrict to)
{
    for (int64_t r = 0; r < rows; r += 2 * LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            int64_t height = rows - r < 2 * LANES ? rows - r : 2 * LANES;
            int64_t width = columns - c < LANES ? columns - c : LANES;

            if (height == 2 * LANES && width == LANES) {
                transpose_halves(from + r * from_row + c, from_row, to + c * rows + r, rows);
                continue;
            }
            for (int64_t j = c; j < c + width; j++)
                for (int64_t i = r; i < r + height; i++)
                    to[j * rows + i] = from[i * from_row + j];
        }
}
