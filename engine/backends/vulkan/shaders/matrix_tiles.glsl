/* matrix_tiles.glsl: a tile of a product of matrices by cooperative matrices: the units of a GPU
 * that multiply small matrices of 16 bits and add them up in float32. A subgroup is a wave here:
 * each of a workgroup's WAVES_M x WAVES_N waves has PART_M x PART_N such matrices of the tile. The
 * shader declares TILE_M, TILE_N and TILE_K, whether neighbours along K lie side by side in its
 * pieces (A_ALONG_K, B_ALONG_K), and whether it loads eight neighbours at once (A_EIGHTS,
 * B_EIGHTS). */
layout(constant_id = CONSTANT_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = CONSTANT_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = CONSTANT_MATRIX_K) const uint MATRIX_K = 16;
layout(constant_id = CONSTANT_WAVES_M) const uint WAVES_M = 2;
layout(constant_id = CONSTANT_WAVES_N) const uint WAVES_N = 4;

/* rows of a piece; 16 bytes more, so that they begin at different banks */
const uint ROW_M = TILE_M + 8, ROW_N = TILE_N + 8, ROW_K = TILE_K + 8;
const uint PART_M = TILE_M / (WAVES_M * MATRIX_M), PART_N = TILE_N / (WAVES_N * MATRIX_N);
const uint SIZE_A = A_ALONG_K ? TILE_M * ROW_K : TILE_K * ROW_M;
const uint SIZE_B = B_ALONG_K ? TILE_N * ROW_K : TILE_K * ROW_N;

/* The pieces, as single numbers or as eights. What is not used has 16 bytes: drivers may lay these
 * arrays side by side, and matrices have to be loaded from multiples of 16 bytes. */
shared uint16_t tile_a[A_EIGHTS ? 8 : SIZE_A];
shared uint16_t tile_b[B_EIGHTS ? 8 : SIZE_B];
shared uvec4 eights_a[A_EIGHTS ? SIZE_A / 8 : 1];
shared uvec4 eights_b[B_EIGHTS ? SIZE_B / 8 : 1];
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

/* The place in a piece of an invocation's load of eight numbers: (row or column, depth). */
uvec2 place_of_eight(uint load, uint extent, bool along_k)
{
    const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

    return along_k ? uvec2(i / (TILE_K / 8), i % (TILE_K / 8) * 8)
                   : uvec2(i % (extent / 8) * 8, i / (extent / 8));
}

const uint EIGHTS_A = (TILE_M * TILE_K / 8 + WORKGROUP - 1) / WORKGROUP;
const uint EIGHTS_B = (TILE_N * TILE_K / 8 + WORKGROUP - 1) / WORKGROUP;
uvec4 next_eights_a[EIGHTS_A], next_eights_b[EIGHTS_B];

void store_eights_a()
{
    [[unroll]] for (uint load = 0; load < EIGHTS_A; load++) {
        const uvec2 at = place_of_eight(load, TILE_M, A_ALONG_K);

        if (at.x < TILE_M && at.y < TILE_K)
            eights_a[place_in_a(at.x, at.y) / 8] = next_eights_a[load];
    }
}

void store_eights_b()
{
    [[unroll]] for (uint load = 0; load < EIGHTS_B; load++) {
        const uvec2 at = place_of_eight(load, TILE_N, B_ALONG_K);

        if (at.x < TILE_N && at.y < TILE_K)
            eights_b[place_in_b(at.x, at.y) / 8] = next_eights_b[load];
    }
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
    if (A_EIGHTS && A_ALONG_K)
        coopMatLoadNV(a, eights_a, (row * ROW_K + depth) / 8, ROW_K / 8, false);
    else if (A_EIGHTS)
        coopMatLoadNV(a, eights_a, (depth * ROW_M + row) / 8, ROW_M / 8, true);
    else if (A_ALONG_K)
        coopMatLoadNV(a, tile_a, row * ROW_K + depth, ROW_K, false);
    else
        coopMatLoadNV(a, tile_a, depth * ROW_M + row, ROW_M, true);
}

void load_b(out MATRIX_OF_B b, uint column, uint depth)
{
    if (B_EIGHTS && B_ALONG_K)
        coopMatLoadNV(b, eights_b, (column * ROW_K + depth) / 8, ROW_K / 8, true);
    else if (B_EIGHTS)
        coopMatLoadNV(b, eights_b, (depth * ROW_N + column) / 8, ROW_N / 8, false);
    else if (B_ALONG_K)
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

/* Calls put(row, column, sum) for each number of the tile: an invocation's of one column one after
 * the other, so that what depends on the column alone is calculated once. */
const uint LANES = WORKGROUP / (WAVES_M * WAVES_N), LANES_N = LANES < MATRIX_N ? LANES : MATRIX_N;
#define TILES_PUT(sum, put)                                                                  \
    const uint own_sums = gl_SubgroupID * MATRIX_M * MATRIX_N;                               \
    const uint lane = gl_SubgroupInvocationID;                                               \
                                                                                             \
    [[unroll]] for (uint j = 0; j < PART_N; j++)                                             \
        [[unroll]] for (uint c = 0; c < MATRIX_N; c += LANES_N)                              \
            [[unroll]] for (uint i = 0; i < PART_M; i++) {                                   \
                subgroupBarrier();                                                           \
                coopMatStoreNV(sum[i * PART_N + j], tile_sums, own_sums, MATRIX_N, false);   \
                subgroupBarrier();                                                           \
                [[unroll]] for (uint r = 0; r < MATRIX_M; r += LANES / LANES_N)              \
                    if (r + lane / LANES_N < MATRIX_M)                                       \
                        put(wave_row(i) + r + lane / LANES_N, wave_column(j) + c + lane % LANES_N, \
                            tile_sums[own_sums + (r + lane / LANES_N) * MATRIX_N + c + lane % LANES_N]); \
            }
