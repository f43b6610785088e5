/* matrix_tiles.glsl: a tile of a product of matrices by cooperative matrices: the units of a GPU
 * that multiply small matrices of 16 bits and add them up in float32. A subgroup is a wave here:
 * each of a workgroup's WAVES_M x WAVES_N waves has PART_M x PART_N such matrices of the tile. The
 * shader declares TILE_M, TILE_N and TILE_K, and whether neighbours along K
 * lie side by side in its pieces: A_ALONG_K, B_ALONG_K. */
layout(constant_id = CONSTANT_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = CONSTANT_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = CONSTANT_MATRIX_K) const uint MATRIX_K = 16;
layout(constant_id = CONSTANT_WAVES_M) const uint WAVES_M = 2;
layout(constant_id = CONSTANT_WAVES_N) const uint WAVES_N = 4;

/* rows of a piece; 16 bytes more, so that they begin at different banks */
const uint ROW_M = TILE_M + 8, ROW_N = TILE_N + 8, ROW_K = TILE_K + 8;
const uint PART_M = TILE_M / (WAVES_M * MATRIX_M), PART_N = TILE_N / (WAVES_N * MATRIX_N);

shared uint16_t tile_a[A_ALONG_K ? TILE_M * ROW_K : TILE_K * ROW_M];
shared uint16_t tile_b[B_ALONG_K ? TILE_N * ROW_K : TILE_K * ROW_N];
/* a matrix of sums of each wave */
shared float tile_sums[WAVES_M * WAVES_N * MATRIX_M * MATRIX_N];

uint place_in_a(uint row, uint depth)
{
    return A_ALONG_K ? row * ROW_K + depth : depth * ROW_M + row;
}

uint place_in_b(uint column, uint depth)
{
    return B_ALONG_K ? column * ROW_K + depth : depth * ROW_N + column;
}

/* The first row and column of a wave's i-th matrix along the axis. */
uint wave_row(uint i)
{
    return (gl_SubgroupID / WAVES_N * PART_M + i) * MATRIX_M;
}

uint wave_column(uint j)
{
    return (gl_SubgroupID % WAVES_N * PART_N + j) * MATRIX_N;
}

#define MATRIX_OF_A fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_M, MATRIX_K>
#define MATRIX_OF_B fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_K, MATRIX_N>
#define MATRIX_OF_SUMS fcoopmatNV<32, gl_ScopeSubgroup, MATRIX_M, MATRIX_N>

#define TILES_DECLARE(sum)                                   \
    MATRIX_OF_SUMS sum[PART_M * PART_N];                     \
                                                             \
    [[unroll]] for (uint i = 0; i < PART_M * PART_N; i++)    \
        sum[i] = MATRIX_OF_SUMS(0.0);

void load_a(out MATRIX_OF_A a, uint row, uint depth)
{
    if (A_ALONG_K)
        coopMatLoadNV(a, tile_a, row * ROW_K + depth, ROW_K, false);
    else
        coopMatLoadNV(a, tile_a, depth * ROW_M + row, ROW_M, true);
}

void load_b(out MATRIX_OF_B b, uint column, uint depth)
{
    if (B_ALONG_K)
        coopMatLoadNV(b, tile_b, column * ROW_K + depth, ROW_K, true);
    else
        coopMatLoadNV(b, tile_b, depth * ROW_N + column, ROW_N, false);
}

/* Adds the product of the pieces to the sums. */
#define TILES_MULTIPLY(sum)                                                                \
    [[unroll]] for (uint depth = 0; depth < TILE_K; depth += MATRIX_K) {                   \
        MATRIX_OF_A left[PART_M];                                                          \
                                                                                           \
        [[unroll]] for (uint i = 0; i < PART_M; i++)                                       \
            load_a(left[i], wave_row(i), depth);                                           \
        [[unroll]] for (uint j = 0; j < PART_N; j++) {                                     \
            MATRIX_OF_B right;                                                             \
                                                                                           \
            load_b(right, wave_column(j), depth);                                          \
            [[unroll]] for (uint i = 0; i < PART_M; i++)                                   \
                sum[i * PART_N + j] = coopMatMulAddNV(left[i], right, sum[i * PART_N + j]); \
        }                                                                                  \
    }

/* Calls put(row, column, sum) for each number of the tile. */
#define TILES_PUT(sum, put)                                                                  \
    const uint own_sums = gl_SubgroupID * MATRIX_M * MATRIX_N;                               \
                                                                                             \
    [[unroll]] for (uint i = 0; i < PART_M; i++)                                             \
        [[unroll]] for (uint j = 0; j < PART_N; j++) {                                       \
            subgroupBarrier();                                                               \
            coopMatStoreNV(sum[i * PART_N + j], tile_sums, own_sums, MATRIX_N, false);       \
            subgroupBarrier();                                                               \
            for (uint e = gl_SubgroupInvocationID; e < MATRIX_M * MATRIX_N;                  \
                 e += gl_SubgroupSize)                                                       \
                put(wave_row(i) + e / MATRIX_N, wave_column(j) + e % MATRIX_N,               \
                    tile_sums[own_sums + e]);                                                \
        }
