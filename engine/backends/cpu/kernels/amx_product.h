/* amx_product.h: within this folder: multiplies tiles by AMX. */
#pragma once

#include "engine/backends/cpu/kernels/amx_tiles.h"
#include "engine/backends/cpu/kernels/kernels.h"

/* sums[row][vector][AMX_LANES]: the products of at most AMX_ROWS rows and a group of packed
 * weights, [step][vector][AMX_LANES][4 bytes]. A step of the depth has four bytes of a row: four
 * integers or two numbers of bfloat16. A row of the sums has AMX_VECTORS_MAX vectors, of which the
 * first ones are written. The order of a sum depends on nothing but its length. */
void KERNEL_NAME(amx_multiply_int8)(struct amx_tiles *tiles, int64_t rows, int vectors,
                                    const uint8_t *a, int64_t a_row, const int8_t *b, int64_t steps,
                                    int32_t *sums);
/* `a_row`: bytes. */
void KERNEL_NAME(amx_multiply_bfloat16)(struct amx_tiles *tiles, int64_t rows, int vectors,
                                        const uint16_t *a, int64_t a_row, const uint16_t *b,
                                        int64_t steps, float *sums);
