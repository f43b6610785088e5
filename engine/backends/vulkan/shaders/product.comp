#version 460
#extension GL_GOOGLE_include_directive : require
/* product.comp: c = alpha a b + bias + beta d for matrices a [M, K] and b [K, N], whose strides say
 * how they lie; d lies as c does. A workgroup has a tile of c. It loads what the tile needs of both
 * operands in pieces of K, and each of its 16 x 16 invocations adds up a part of the tile in
 * registers: first FOLD numbers, then the sums of these, so that a long K costs no accuracy. */
#include "common.glsl"

layout(constant_id = 1) const uint TILE_M = 64;
layout(constant_id = 2) const uint TILE_N = 64;
layout(constant_id = 3) const uint TILE_K = 16;
layout(constant_id = 4) const uint A_ALONG_K = 1; /* neighbours of a row of a lie side by side */
layout(constant_id = 5) const uint B_ALONG_K = 0; /* neighbours of a column of b do */
layout(constant_id = 6) const uint HAS_BIAS = 0;  /* one number for each column of c */
layout(constant_id = 7) const uint HAS_ADDEND = 0; /* d, which may be c itself */

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

const uint SIDE = 16;
const uint FOLD = 512; /* a multiple of TILE_K */
const uint PART_M = TILE_M / SIDE, PART_N = TILE_N / SIDE;

shared float tile_a[TILE_K * TILE_M];
shared float tile_b[TILE_K * TILE_N];

void load_tiles(uint first_m, uint first_n, uint first_k)
{
    const uint own = gl_LocalInvocationID.x;

    for (uint i = own; i < TILE_M * TILE_K; i += SIDE * SIDE) {
        const uint row = A_ALONG_K != 0 ? i / TILE_K : i % TILE_M;
        const uint depth = A_ALONG_K != 0 ? i % TILE_K : i / TILE_M;
        const uint at_m = first_m + row, at_k = first_k + depth;

        tile_a[depth * TILE_M + row] =
            at_m < m && at_k < k ? GET(a, gl_WorkGroupID.z * a_batch + at_m * a_m + at_k * a_k)
                                 : 0.0;
    }
    for (uint i = own; i < TILE_N * TILE_K; i += SIDE * SIDE) {
        const uint column = B_ALONG_K != 0 ? i / TILE_K : i % TILE_N;
        const uint depth = B_ALONG_K != 0 ? i % TILE_K : i / TILE_N;
        const uint at_n = first_n + column, at_k = first_k + depth;

        tile_b[depth * TILE_N + column] =
            at_n < n && at_k < k ? GET(b, gl_WorkGroupID.z * b_batch + at_k * b_k + at_n * b_n)
                                 : 0.0;
    }
}

void main()
{
    const uint row = gl_LocalInvocationID.x / SIDE, column = gl_LocalInvocationID.x % SIDE;
    const uint first_m = gl_WorkGroupID.y * TILE_M, first_n = gl_WorkGroupID.x * TILE_N;
    float sum[PART_M * PART_N], total[PART_M * PART_N];

    [[unroll]] for (uint i = 0; i < PART_M * PART_N; i++)
        sum[i] = total[i] = 0.0;
    for (uint first_k = 0; first_k < k; first_k += TILE_K) {
        load_tiles(first_m, first_n, first_k);
        barrier();
        [[unroll]] for (uint depth = 0; depth < TILE_K; depth++) {
            float left[PART_M];

            [[unroll]] for (uint i = 0; i < PART_M; i++)
                left[i] = tile_a[depth * TILE_M + row + i * SIDE];
            [[unroll]] for (uint j = 0; j < PART_N; j++) {
                const float right = tile_b[depth * TILE_N + column + j * SIDE];

                [[unroll]] for (uint i = 0; i < PART_M; i++)
                    sum[i * PART_N + j] += left[i] * right;
            }
        }
        barrier();
        if ((first_k + TILE_K) % FOLD == 0)
            [[unroll]] for (uint i = 0; i < PART_M * PART_N; i++) {
                total[i] += sum[i];
                sum[i] = 0.0;
            }
    }
    for (uint i = 0; i < PART_M; i++)
        for (uint j = 0; j < PART_N; j++) {
            const uint at_m = first_m + row + i * SIDE, at_n = first_n + column + j * SIDE;
            const uint place = gl_WorkGroupID.z * c_batch + at_m * c_m + at_n;

            if (at_m < m && at_n < n)
                PUT(c, place, alpha * (total[i * PART_N + j] + sum[i * PART_N + j]) +
                              (HAS_BIAS != 0 ? bias.at[at_n] : 0.0) +
                              (HAS_ADDEND != 0 ? beta * d.at[place] : 0.0));
        }
}
