/* tiles.h: what the tests of images in tiles share: numbers that bfloat16 has, memory for tiles,
 * and whether AMX can multiply them here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers that bfloat16 has, of about 1. */
void tiles_seed(uint32_t seed);
float tiles_draw(void);
/* Zeroed, as the kernels want it aligned; to be freed. */
void *tiles_allocate(size_t bytes);
/* Says so once where it does not. */
bool tiles_have_amx(void);
