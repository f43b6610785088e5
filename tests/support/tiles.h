/* tiles.h: shared by the tests of images in tiles: numbers that bfloat16 can represent, memory for
 * tiles, and whether this processor multiplies them by AMX. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of about 1 that bfloat16 can represent. */
void tiles_seed(uint32_t seed);
float tiles_draw(void);
/* Zeroed memory with the kernels' alignment; the caller frees it. */
void *tiles_allocate(size_t bytes);
/* If not, it prints that once. */
bool tiles_have_amx(void);
