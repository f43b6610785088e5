/* recurrent_bfloat16.h: within this folder: products of the state of recurrent layers in bfloat16,
 * 16 rows at a time by AMX, and the rounding of what they multiply. */
#pragma once

#include "engine/backends/cpu/kernels/amx_product.h"
#include "engine/backends/cpu/kernels/recurrent_product.h"
#include "engine/backends/cpu/kernels/tiles_vector.h"

#include <string.h>

enum { SUM_ROWS = AMX_ROWS }; /* of which sums are held at once */
_Static_assert((int)ROWS <= (int)SUM_ROWS, "rows in float32 fit, too");

static inline int64_t rows_together(bool bfloat16, int64_t row, int64_t end)
{
    return bfloat16 ? minimum(AMX_ROWS, end - row) : tile_rows(row, end);
}

/* Rounds some units of a row of `depth` numbers, and fills it up. */
static inline void round_units(const struct recurrent_bfloat16 *bfloat16, int64_t row,
                               int64_t depth, const float *from, int64_t unit, int64_t units)
{
    uint16_t *to = bfloat16->after + row * bfloat16->row;
    int64_t u = unit;

    for (; u + LANES <= unit + units; u += LANES)
        store_halves(to + u, load_floats(from + u));
    KERNEL_NAME(convert_bfloat16)(from + u, to + u, unit + units - u);
    if (unit + units == depth && depth % 2)
        to[depth] = 0;
}

/* `sums` is [rows][VECTORS][VECTOR]. The weights of `column` columns come before. */
static inline void bfloat16_product(const struct recurrent_bfloat16 *bfloat16, int64_t row,
                                    int64_t rows, int vectors, int64_t column, int64_t depth,
                                    float *sums, struct amx_tiles *tiles)
{
    int64_t steps = (depth + 1) / 2;

    if (!bfloat16->before) {
        memset(sums, 0, (size_t)(rows * VECTORS * VECTOR) * sizeof *sums);
        return;
    }
    KERNEL_NAME(amx_multiply_bfloat16)
    (tiles, rows, vectors, bfloat16->before + row * bfloat16->row,
     bfloat16->row * (int64_t)sizeof *bfloat16->before, bfloat16->weights + column * 2 * steps,
     steps, sums);
}
