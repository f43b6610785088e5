/* tiles.glsl: a tile of a product of matrices, from pieces of both operands in shared memory. Each
 * of 16 x 16 invocations adds up a part of it in registers, or cooperative matrices do
 * (matrix_tiles.glsl). The shader declares A_ALONG_K and B_ALONG_K, which say how cooperative
 * matrices find their pieces. */
layout(constant_id = 1) const uint TILE_M = 64;
layout(constant_id = 2) const uint TILE_N = 64;
layout(constant_id = 3) const uint TILE_K = 16;

#ifdef MATRICES
#include "matrix_tiles.glsl"
#else
const uint SIDE = 16;
const uint PART_M = TILE_M / SIDE, PART_N = TILE_N / SIDE;
/* rows of a piece; one number more, so that loads along K meet different banks */
const uint ROW_M = TILE_M + 1, ROW_N = TILE_N + 1;

shared float tile_a[TILE_K * ROW_M];
shared float tile_b[TILE_K * ROW_N];

uint place_in_a(uint row, uint depth)
{
    return depth * ROW_M + row;
}

uint place_in_b(uint column, uint depth)
{
    return depth * ROW_N + column;
}

#define TILES_DECLARE(sum)                                   \
    const uint tile_row = gl_LocalInvocationID.x / SIDE;     \
    const uint tile_column = gl_LocalInvocationID.x % SIDE;  \
    float sum[PART_M * PART_N];                              \
                                                             \
    [[unroll]] for (uint i = 0; i < PART_M * PART_N; i++)    \
        sum[i] = 0.0;

/* Adds the product of the pieces to the sums. */
#define TILES_MULTIPLY(sum)                                                      \
    [[unroll]] for (uint depth = 0; depth < TILE_K; depth++) {                   \
        float left[PART_M];                                                      \
                                                                                 \
        [[unroll]] for (uint i = 0; i < PART_M; i++)                             \
            left[i] = tile_a[depth * ROW_M + tile_row + i * SIDE];               \
        [[unroll]] for (uint j = 0; j < PART_N; j++) {                           \
            const float right = tile_b[depth * ROW_N + tile_column + j * SIDE];  \
                                                                                 \
            [[unroll]] for (uint i = 0; i < PART_M; i++)                         \
                sum[i * PART_N + j] += left[i] * right;                          \
        }                                                                        \
    }

/* Calls put(row, column, sum) for each number of the tile. */
#define TILES_PUT(sum, put)                                                  \
    for (uint j = 0; j < PART_N; j++)                                        \
        for (uint i = 0; i < PART_M; i++)                                    \
            put(tile_row + i * SIDE, tile_column + j * SIDE, sum[i * PART_N + j]);
#endif
