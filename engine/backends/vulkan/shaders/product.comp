#version 460
#extension GL_GOOGLE_include_directive : require
/* product.comp: c = act(alpha a b + bias + beta d) for matrices a [M, K] and b [K, N], whose
 * strides say how they lie; d lies as c does. A workgroup has a tile of c. It takes what the tile
 * needs of both operands through shared memory, in pieces of K: while it multiplies one piece it
 * loads the next one into registers. Each of its 16 x 16 invocations adds up a part of the tile
 * there: first PRODUCT_FOLD numbers, then the sums of these, so that a long K costs no accuracy. Or
 * cooperative matrices do, where both operands have 16 bits: sums in float32 are exact enough for
 * those. In which order numbers are added does not depend on the tile. */
#include "common.glsl"
#include "activations.glsl"

layout(constant_id = 1) const uint TILE_M = 64;
layout(constant_id = 2) const uint TILE_N = 64;
layout(constant_id = 3) const uint TILE_K = 16; /* TILE_M TILE_K is a multiple of 256; so with N */
layout(constant_id = 4) const uint FLAGS = 0;   /* PRODUCT_... */
layout(constant_id = 5) const uint ACTIVATION = 0; /* 1 + its number; 0: none */

layout(push_constant, scalar) uniform Push
{
    Floats a, b, bias, c, d;
    uint m, n, k;
    uint a_m, a_k, b_k, b_n; /* strides: elements from one number to the next along that axis */
    uint c_m;
    uint a_batch, b_batch, c_batch; /* from one product to the next: gl_WorkGroupID.z */
    float alpha, beta;
};
TYPED(a, 0) TYPED(b, 1) TYPED(c, 3)

const bool A_ALONG_K = (FLAGS & PRODUCT_A_ALONG_K) != 0;
const bool B_ALONG_K = (FLAGS & PRODUCT_B_ALONG_K) != 0;
#ifdef MATRICES
const bool A_EIGHTS = (FLAGS & PRODUCT_A_EIGHTS) != 0;
const bool B_EIGHTS = (FLAGS & PRODUCT_B_EIGHTS) != 0;
#include "matrix_tiles.glsl"
#else
const uint SIDE = 16;
const uint PART_M = TILE_M / SIDE, PART_N = TILE_N / SIDE;
/* rows of a piece; four numbers more, so that those that are written side by side meet different
 * banks, and fours stay aligned */
const uint ROW_M = TILE_M + 4, ROW_N = TILE_N + 4;

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
#endif

const uint LOADS_A = TILE_M * TILE_K / WORKGROUP, LOADS_B = TILE_N * TILE_K / WORKGROUP;
PIECE_NUMBER next_a[LOADS_A], next_b[LOADS_B];

bool has(uint flag)
{
    return (FLAGS & flag) != 0;
}

/* The place in a tile, and in K, of a load: neighbours load what lies side by side. */
uvec2 place_of_load(uint load, uint extent, bool along_k)
{
    const uint i = gl_LocalInvocationID.x + load * WORKGROUP;

    return along_k ? uvec2(i / TILE_K, i % TILE_K) : uvec2(i % extent, i / extent);
}

void fetch_a(uint first_m, uint first_k)
{
#ifdef MATRICES
    if (A_EIGHTS) {
        [[unroll]] for (uint load = 0; load < EIGHTS_A; load++) {
            const uvec2 at = place_of_eight(load, TILE_M, A_ALONG_K);
            const uint at_m = first_m + at.x, at_k = first_k + at.y;

            next_eights_a[load] =
                at.x < TILE_M && at.y < TILE_K && at_m < m && at_k < k
                    ? EIGHT(a, gl_WorkGroupID.z * a_batch + at_m * a_m + at_k * a_k)
                    : uvec4(0);
        }
        return;
    }
#endif
    [[unroll]] for (uint load = 0; load < LOADS_A; load++) {
        const uvec2 at = place_of_load(load, TILE_M, A_ALONG_K);
        const uint at_m = first_m + at.x, at_k = first_k + at.y;

        next_a[load] = at_m < m && at_k < k
                           ? PIECE(a, gl_WorkGroupID.z * a_batch + at_m * a_m + at_k * a_k)
                           : PIECE_NUMBER(0);
    }
}

void fetch_b(uint first_n, uint first_k)
{
#ifdef MATRICES
    if (B_EIGHTS) {
        [[unroll]] for (uint load = 0; load < EIGHTS_B; load++) {
            const uvec2 at = place_of_eight(load, TILE_N, B_ALONG_K);
            const uint at_n = first_n + at.x, at_k = first_k + at.y;

            next_eights_b[load] =
                at.x < TILE_N && at.y < TILE_K && at_n < n && at_k < k
                    ? EIGHT(b, gl_WorkGroupID.z * b_batch + at_k * b_k + at_n * b_n)
                    : uvec4(0);
        }
        return;
    }
#endif
    [[unroll]] for (uint load = 0; load < LOADS_B; load++) {
        const uvec2 at = place_of_load(load, TILE_N, B_ALONG_K);
        const uint at_n = first_n + at.x, at_k = first_k + at.y;

        next_b[load] = at_n < n && at_k < k
                           ? PIECE(b, gl_WorkGroupID.z * b_batch + at_k * b_k + at_n * b_n)
                           : PIECE_NUMBER(0);
    }
}

void fetch_pieces(uint first_m, uint first_n, uint first_k)
{
    fetch_a(first_m, first_k);
    fetch_b(first_n, first_k);
}

void store_a()
{
#ifdef MATRICES
    if (A_EIGHTS) {
        store_eights_a();
        return;
    }
#endif
    [[unroll]] for (uint load = 0; load < LOADS_A; load++) {
        const uvec2 at = place_of_load(load, TILE_M, A_ALONG_K);

        tile_a[place_in_a(at.x, at.y)] = next_a[load];
    }
}

void store_b()
{
#ifdef MATRICES
    if (B_EIGHTS) {
        store_eights_b();
        return;
    }
#endif
    [[unroll]] for (uint load = 0; load < LOADS_B; load++) {
        const uvec2 at = place_of_load(load, TILE_N, B_ALONG_K);

        tile_b[place_in_b(at.x, at.y)] = next_b[load];
    }
}

/* A number of the result goes to its place. */
void put_sum(uint at_m, uint at_n, float sum)
{
    const uint place = gl_WorkGroupID.z * c_batch + at_m * c_m + at_n;

    if (at_m < m && at_n < n)
        PUT(c, place, activated(ACTIVATION, alpha * sum +
                                                (has(PRODUCT_BIAS) ? bias.at[at_n] : 0.0) +
                                                (has(PRODUCT_ADDEND) ? beta * d.at[place] : 0.0)));
}

#ifdef MATRICES
void main()
{
    const uint first_m = gl_WorkGroupID.y * TILE_M, first_n = gl_WorkGroupID.x * TILE_N;

    TILES_DECLARE(sum)
    fetch_pieces(first_m, first_n, 0);
    for (uint first_k = 0; first_k < k; first_k += TILE_K) {
        store_a();
        store_b();
        barrier();
        if (first_k + TILE_K < k)
            fetch_pieces(first_m, first_n, first_k + TILE_K);
        TILES_MULTIPLY(sum)
        barrier();
    }
#define PUT_SUM(row, column, number) put_sum(first_m + (row), first_n + (column), number)
    TILES_PUT(sum, PUT_SUM)
}
#else
/* The place in a tile of an invocation's i-th of `parts` numbers along an axis. Up to four lie side
 * by side, which compilers read at once. */
uint place_of_part(uint own, uint i, uint parts)
{
    const uint together = min(parts, 4);

    return i / together * together * SIDE + own * together + i % together;
}

void main()
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;
    const uint first_m = gl_WorkGroupID.y * TILE_M, first_n = gl_WorkGroupID.x * TILE_N;
    float sum[PART_M * PART_N], total[PART_M * PART_N];

    [[unroll]] for (uint i = 0; i < PART_M * PART_N; i++)
        sum[i] = total[i] = 0.0;
    fetch_pieces(first_m, first_n, 0);
    for (uint first_k = 0; first_k < k; first_k += TILE_K) {
        store_a();
        store_b();
        barrier();
        if (first_k + TILE_K < k)
            fetch_pieces(first_m, first_n, first_k + TILE_K);
        [[unroll]] for (uint depth = 0; depth < TILE_K; depth++) {
            float left[PART_M];

            [[unroll]] for (uint i = 0; i < PART_M; i++)
                left[i] = tile_a[depth * ROW_M + place_of_part(row, i, PART_M)];
            [[unroll]] for (uint j = 0; j < PART_N; j++) {
                const float right = tile_b[depth * ROW_N + place_of_part(column, j, PART_N)];

                [[unroll]] for (uint i = 0; i < PART_M; i++)
                    sum[i * PART_N + j] += left[i] * right;
            }
        }
        barrier();
        if (has(PRODUCT_FOLDS) && (first_k + TILE_K) % PRODUCT_FOLD == 0)
            [[unroll]] for (uint i = 0; i < PART_M * PART_N; i++) {
                total[i] += sum[i];
                sum[i] = 0.0;
            }
    }
    [[unroll]] for (uint i = 0; i < PART_M; i++)
        [[unroll]] for (uint j = 0; j < PART_N; j++)
            put_sum(first_m + place_of_part(row, i, PART_M),
                    first_n + place_of_part(column, j, PART_N),
                    total[i * PART_N + j] + sum[i * PART_N + j]);
}
#endif
