/* int8_amx.h: within this folder: multiplies tiles of integers of 8 bits by AMX. */
#pragma once

#include "engine/backends/cpu/kernels/int8.h"
#include "engine/backends/cpu/kernels/kernels.h"

/* sums[row][vector][INT8_LANES]: the products of at most INT8_TILE_ROWS rows and a group of packed
 * weights. A row of the sums has INT8_VECTORS_MAX vectors, of which the first ones are written. */
void KERNEL_NAME(int8_multiply_amx)(struct int8_tiles *tiles, int64_t rows, int vectors,
                                    const uint8_t *a, int64_t a_row, const int8_t *b, int64_t steps,
                                    int32_t *sums);
