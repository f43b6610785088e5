/* tile.cuh: computes a 16 x 16 tile of a matrix product by tensor cores, with operands loaded from
 * memory straight into registers. It is for products so small that waiting for memory takes most of
 * the time. The terms of a sum are divided among warps in chunks of 16. A warp loads all numbers of
 * `flight` chunks before it multiplies the first one. The caller adds up the warps' sums, in the
 * order of the warps.
 *
 * A thread may have any row, column or term, as long as both operands agree. This makes all loads 8
 * or 16 bytes wide. Term k of a chunk belongs to thread k / 4 of a group of four. A thread has rows
 * (columns) lane / 4 and lane / 4 + 8 of an operand whose terms are adjacent, and rows 2 (lane / 4)
 * and the next one of an operand whose rows are adjacent.
 *
 * `plain`: both operands are float32, or the type in which they are multiplied, may be read wide,
 * and have whole chunks (matrix_is_plain()). Without the branches for other operands, the kernels
 * have a third of the instructions, which each launch has to fetch. */
#pragma once

#include "engine/backends/cuda/kernels/small_linear.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int WARPS = SMALL_WARPS, THREADS = 32 * WARPS; /* of a block */
constexpr int TILE = SMALL_TILE;
constexpr int RUN = 2; /* chunks that tensor cores add up before the sum continues in float32 */
constexpr int PITCH =
    24; /* the pitch of a tile's rows in shared memory: two of them are in different banks */

/* `type` is the type in which operands are multiplied: enum tensor_type. float32 is the sum of two
 * TF32 numbers. Of their four products the smallest one is left out (3xTF32: Ootomo and Yokota
 * 2022, arXiv:2203.03341), which gives an error of 2^-22 of each product. */

/* A thread's share of 16 rows x 16 terms: [row][term 4 (lane % 4) + j]. */
struct chunk {
    float value[2][4];
};

__device__ static inline void read_four(const struct cuda_array &a, int64_t i, float *to)
{
    if (a.type == TENSOR_FLOAT32) {
        float4 four = *(const float4 *)((const float *)a.at + i);

        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else {
        uint2 raw = *(const uint2 *)((const uint16_t *)a.at + i);
        const uint16_t bits[4] = {(uint16_t)raw.x, (uint16_t)(raw.x >> 16), (uint16_t)raw.y,
                                  (uint16_t)(raw.y >> 16)};

#pragma unroll
        for (int j = 0; j < 4; j++)
            to[j] = a.type == TENSOR_BFLOAT16 ? to_float(__ushort_as_bfloat16(bits[j]))
                                              : to_float(__ushort_as_half(bits[j]));
    }
}

__device__ static inline void read_two(const struct cuda_array &a, int64_t i, float *x, float *y)
{
    if (a.type == TENSOR_FLOAT32) {
        float2 two = *(const float2 *)((const float *)a.at + i);

        *x = two.x, *y = two.y;
    } else {
        uint32_t raw = *(const uint32_t *)((const uint16_t *)a.at + i);
        const uint16_t low = (uint16_t)raw, high = (uint16_t)(raw >> 16);

        *x = a.type == TENSOR_BFLOAT16 ? to_float(__ushort_as_bfloat16(low))
                                       : to_float(__ushort_as_half(low));
        *y = a.type == TENSOR_BFLOAT16 ? to_float(__ushort_as_bfloat16(high))
                                       : to_float(__ushort_as_half(high));
    }
}

static inline bool matrix_is_plain(const struct cuda_small_matrix *m, int type)
{
    return (m->array.type == TENSOR_FLOAT32 || m->array.type == type) && m->wide &&
           m->terms % TILE == 0;
}

/* Whether a plain operand is stored in 16 bits. Only kernels for such types ask. */
template <int type> __device__ static inline bool is_short(const struct cuda_small_matrix &m)
{
    return (type == TENSOR_BFLOAT16 || type == TENSOR_FLOAT16) && m.array.type != TENSOR_FLOAT32;
}

template <int type> __device__ static inline float short_to_float(uint32_t bits)
{
    return type == TENSOR_BFLOAT16 ? to_float(__ushort_as_bfloat16((uint16_t)bits))
                                   : to_float(__ushort_as_half((uint16_t)bits));
}

template <int type>
__device__ static inline float plain_value(const struct cuda_small_matrix &m, int i)
{
    return is_short<type>(m) ? short_to_float<type>(((const uint16_t *)m.array.at)[i])
                             : ((const float *)m.array.at)[i];
}

template <int type>
__device__ static inline void plain_four(const struct cuda_small_matrix &m, int i, float *to)
{
    if (is_short<type>(m)) {
        const uint2 raw = *(const uint2 *)((const uint16_t *)m.array.at + i);

        to[0] = short_to_float<type>(raw.x), to[1] = short_to_float<type>(raw.x >> 16);
        to[2] = short_to_float<type>(raw.y), to[3] = short_to_float<type>(raw.y >> 16);
    } else {
        const float4 four = *(const float4 *)((const float *)m.array.at + i);

        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    }
}

template <int type>
__device__ static inline void plain_two(const struct cuda_small_matrix &m, int i, float *x,
                                        float *y)
{
    if (is_short<type>(m)) {
        const uint32_t raw = *(const uint32_t *)((const uint16_t *)m.array.at + i);

        *x = short_to_float<type>(raw), *y = short_to_float<type>(raw >> 16);
    } else {
        const float2 two = *(const float2 *)((const float *)m.array.at + i);

        *x = two.x, *y = two.y;
    }
}

/* Loads rows from row0 and terms from k0, all of which exist. Rows behind the last one repeat
 * it. */
template <int type, bool TERMS_SIDE_BY_SIDE>
__device__ static inline void chunk_load_plain(struct chunk &c, const struct cuda_small_matrix &m,
                                               int row0, int k0)
{
    const int g = threadIdx.x % 32 / 4, k = k0 + 4 * (threadIdx.x % 4);

    if (TERMS_SIDE_BY_SIDE) {
#pragma unroll
        for (int r = 0; r < 2; r++)
            plain_four<type>(m, min(row0 + g + 8 * r, m.rows - 1) * m.terms + k, c.value[r]);
    } else {
        const int row = min(row0 + 2 * g, m.rows - 2);

#pragma unroll
        for (int j = 0; j < 4; j++)
            plain_two<type>(m, (k + j) * m.rows + row, &c.value[0][j], &c.value[1][j]);
    }
}

/* Loads rows from row0 and terms from k0; beyond the matrix there are zeros. */
template <bool TERMS_SIDE_BY_SIDE>
__device__ static inline void chunk_load_any(struct chunk &c, const struct cuda_small_matrix &m,
                                             int row0, int k0)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;

    if (TERMS_SIDE_BY_SIDE) {
        const int k = k0 + 4 * t;

#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = row0 + g + 8 * r;
            const int64_t at = (int64_t)row * m.terms + k;

#pragma unroll
            for (int j = 0; j < 4; j++)
                c.value[r][j] = 0;
            if (m.wide && row < m.rows && k < m.terms)
                read_four(m.array, at, c.value[r]);
            if (!m.wide && row < m.rows)
                for (int j = 0; j < 4 && k + j < m.terms; j++)
                    c.value[r][j] = array_load(m.array, at + j);
        }
    } else {
        const int row = row0 + 2 * g;

#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int k = k0 + 4 * t + j;
            const int64_t at = (int64_t)k * m.rows + row;

            c.value[0][j] = c.value[1][j] = 0;
            if (m.wide && row < m.rows && k < m.terms)
                read_two(m.array, at, &c.value[0][j], &c.value[1][j]);
            if (!m.wide && k < m.terms)
                for (int r = 0; r < 2 && row + r < m.rows; r++)
                    c.value[r][j] = array_load(m.array, at + r);
        }
    }
}

/* Loads chunk number `number` of `chunks`; beyond these there are zeros. */
template <int type, bool TERMS_SIDE_BY_SIDE, bool plain>
__device__ static inline void chunk_load(struct chunk &c, const struct cuda_small_matrix &m,
                                         int row0, int number, int chunks)
{
    if (!plain) {
        chunk_load_any<TERMS_SIDE_BY_SIDE>(c, m, row0, number * TILE);
    } else if (number < chunks) {
        chunk_load_plain<type, TERMS_SIDE_BY_SIDE>(c, m, row0, number * TILE);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            c.value[i / 4][i % 4] = 0;
    }
}

/* ---- products of chunks ---- */

__device__ static inline uint32_t to_tf32(float x)
{
    uint32_t rounded = 0;

#if __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
#endif
    return rounded;
}

/* x, rounded as an operand. */
template <int type> __device__ static inline float rounded(float x)
{
    switch (type) {
    case TENSOR_TF32:
        return __uint_as_float(to_tf32(x));
    case TENSOR_BFLOAT16:
        return to_float(from_float<__nv_bfloat16>(x));
    case TENSOR_FLOAT16:
        return to_float(from_float<__half>(x));
    default:
        return x;
    }
}

template <int type> __device__ static inline uint32_t pack(float low, float high)
{
    if (type == TENSOR_BFLOAT16)
        return (uint32_t)__bfloat16_as_ushort(from_float<__nv_bfloat16>(low)) |
               (uint32_t)__bfloat16_as_ushort(from_float<__nv_bfloat16>(high)) << 16;
    return (uint32_t)__half_as_ushort(from_float<__half>(low)) |
           (uint32_t)__half_as_ushort(from_float<__half>(high)) << 16;
}

/* sum += a b, for 16 x 8 x 8 (TF32) or 16 x 8 x 16 (16 bits) numbers: PTX ISA, "Matrix
 * multiply-accumulate instruction using mma". */
template <int type>
__device__ static inline void fragment_multiply(float *sum, const uint32_t *a, const uint32_t *b)
{
#if __CUDA_ARCH__ >= 800
#define MULTIPLY(shape)                                                                    \
    asm("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
    if (type == TENSOR_BFLOAT16)
        MULTIPLY("m16n8k16.row.col.f32.bf16.bf16.f32");
    else if (type == TENSOR_FLOAT16)
        MULTIPLY("m16n8k16.row.col.f32.f16.f16.f32");
    else
        MULTIPLY("m16n8k8.row.col.f32.tf32.tf32.f32");
#undef MULTIPLY
#endif
}

/* In two halves of four terms for each thread: 16 x 8 x 8 each. */
template <bool exact>
__device__ static inline void chunk_multiply_tf32(float (*sum)[4], const struct chunk &a,
                                                  const struct chunk &b)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t high[4], low[4];

#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = a.value[i % 2][2 * h + i / 2];

            high[i] = to_tf32(x);
            low[i] = exact ? to_tf32(x - __uint_as_float(high[i])) : 0;
        }
#pragma unroll
        for (int n = 0; n < 2; n++) {
            uint32_t b_high[2], b_low[2];

#pragma unroll
            for (int i = 0; i < 2; i++) {
                float x = b.value[n][2 * h + i];

                b_high[i] = to_tf32(x);
                b_low[i] = exact ? to_tf32(x - __uint_as_float(b_high[i])) : 0;
            }
            if (exact) {
                fragment_multiply<TENSOR_TF32>(sum[n], low, b_high);
                fragment_multiply<TENSOR_TF32>(sum[n], high, b_low);
            }
            fragment_multiply<TENSOR_TF32>(sum[n], high, b_high);
        }
    }
}

template <int type>
__device__ static inline void chunk_multiply(float (*sum)[4], const struct chunk &a,
                                             const struct chunk &b)
{
    if (type == TENSOR_FLOAT32 || type == TENSOR_TF32) {
        chunk_multiply_tf32<type == TENSOR_FLOAT32>(sum, a, b);
    } else {
        uint32_t packed[4];

#pragma unroll
        for (int i = 0; i < 4; i++)
            packed[i] = pack<type>(a.value[i % 2][2 * (i / 2)], a.value[i % 2][2 * (i / 2) + 1]);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const uint32_t other[2] = {pack<type>(b.value[n][0], b.value[n][1]),
                                       pack<type>(b.value[n][2], b.value[n][3])};

            fragment_multiply<type>(sum[n], packed, other);
        }
    }
}

/* The sums of the numbers as operands. TF32 rounds in products only. */
template <int type> __device__ static inline float chunk_row_sum(const struct chunk &c, int row)
{
    constexpr int as = type == TENSOR_TF32 ? TENSOR_FLOAT32 : type;

    return (rounded<as>(c.value[row][0]) + rounded<as>(c.value[row][1])) +
           (rounded<as>(c.value[row][2]) + rounded<as>(c.value[row][3]));
}

/* ---- tiles ---- */

/* The sums of a warp. It takes chunks part, part + parts, … of the tile at (row0, column0) and
 * writes to tile[TILE][PITCH]. The sums of a's rows over their terms go to row_sums[TILE] unless it
 * is NULL. */
template <int type, bool A_TERMS, bool B_TERMS, bool plain, int flight>
__device__ static inline void tile_part(const struct cuda_small_matrix &a,
                                        const struct cuda_small_matrix &b, int row0, int column0,
                                        int part, int parts, float *tile, float *row_sums)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int chunks = (a.terms + TILE - 1) / TILE;
    float sum[2][4] = {}, rows[2] = {};

    for (int c = part; c < chunks; c += parts * flight) {
        struct chunk x[flight], y[flight];

#pragma unroll
        for (int f = 0; f < flight; f++) {
            chunk_load<type, A_TERMS, plain>(x[f], a, row0, c + f * parts, chunks);
            chunk_load<type, B_TERMS, plain>(y[f], b, column0, c + f * parts, chunks);
        }
#pragma unroll
        for (int first = 0; first < flight; first += RUN) {
            /* tensor cores round sums towards zero, so only a few sums are added one after the
             * other */
            float some[2][4] = {};

#pragma unroll
            for (int f = first; f < first + RUN; f++) {
                chunk_multiply<type>(some, x[f], y[f]);
#pragma unroll
                for (int r = 0; r < 2; r++)
                    rows[r] += chunk_row_sum<type>(x[f], r);
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum[i / 4][i % 4] += some[i / 4][i % 4];
        }
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = A_TERMS ? g + 8 * (i / 2) : 2 * g + i / 2;
            const int slot = 2 * t + i % 2;

            tile[row * PITCH + (B_TERMS ? slot + 8 * n : 2 * slot + n)] = sum[n][i];
        }
    if (!row_sums)
        return;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        rows[r] += __shfl_xor_sync(~0u, rows[r], 1);
        rows[r] += __shfl_xor_sync(~0u, rows[r], 2);
        if (t == 0)
            row_sums[A_TERMS ? g + 8 * r : 2 * g + r] = rows[r];
    }
}

/* One number of a tile, summed over the `parts` warps that have computed it:
 * tile[parts][TILE][PITCH]. */
__device__ static inline float tile_sum(const float (*tile)[TILE * PITCH], int parts, int row,
                                        int column)
{
    float sum = 0;

    if (parts == WARPS) {
#pragma unroll
        for (int p = 0; p < WARPS; p++)
            sum += tile[p][row * PITCH + column];
    } else {
#pragma unroll 4
        for (int p = 0; p < parts; p++)
            sum += tile[p][row * PITCH + column];
    }
    return sum;
}
