/* amx.h: within this folder: what all kernels that multiply by tile registers (AMX) need. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

/* What _tile_loadconfig() reads: the bytes of a row, and the rows, of each tile. */
struct tile_configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* gcc 12 does not know which memory the intrinsics read. */
#define MEMORY_IS_WRITTEN() __asm__ volatile("" ::: "memory")
