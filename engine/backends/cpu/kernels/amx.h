/* amx.h: within this folder: what all kernels that multiply by tile registers (AMX) need. */
#pragma once

#include "engine/backends/cpu/kernels/amx_tiles.h"

#include <immintrin.h>
#include <stdint.h>

enum { AMX_TILES = 8, AMX_ROW_BYTES = 64 };

/* What _tile_loadconfig() reads: the bytes of a row, and the rows, of each tile. */
struct tile_configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* gcc 12 does not know which memory the intrinsics read. */
#define MEMORY_IS_WRITTEN() __asm__ volatile("" ::: "memory")

/* Configures all tiles as whole ones. */
__attribute__((target("amx-tile"))) static inline void amx_begin_whole_tiles(void)
{
    struct tile_configuration configuration = {.palette = 1};

    for (int i = 0; i < AMX_TILES; i++) {
        configuration.row_bytes[i] = AMX_ROW_BYTES;
        configuration.rows[i] = AMX_ROWS;
    }
    MEMORY_IS_WRITTEN();
    _tile_loadconfig(&configuration);
}

/* Gives the tiles back. gcc 12 does not clear the upper halves of vectors before it calls this as
 * the last thing of a function, so that code of SSE would be slow from then on (exp() five times).
 */
__attribute__((target("amx-tile"))) static inline void amx_end_whole_tiles(void)
{
    _tile_release();
    _mm256_zeroupper();
}
