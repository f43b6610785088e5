/* amx_tiles.h: the tile registers of AMX, in which two kinds of kernels multiply 16 rows at a time:
 * integers of 8 bits (int8.h) and the state of recurrent layers in bfloat16 (recurrent.h). */
#pragma once

#include <stdint.h>

enum {
    AMX_ROWS = 16,       /* of a tile */
    AMX_LANES = 16,      /* columns of one */
    AMX_VECTORS_MAX = 4, /* tiles of columns that are multiplied together */
};

/* How the tile registers are configured, so that this is done but once: it takes as long as a
 * product of a few tiles. All 0: they are not. */
struct amx_tiles {
    int64_t rows, steps_left; /* the rest of the depth in steps of four bytes */
};
