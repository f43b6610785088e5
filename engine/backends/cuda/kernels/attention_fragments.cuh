/* attention_fragments.cuh: what the kernels of attention by tensor cores share: how a warp gets
 * operands from shared memory, and sums over the four threads that have a row. */
#pragma once

#include "engine/backends/cuda/kernels/attention.cuh"
#include "engine/backends/cuda/kernels/fragments.cuh"

constexpr int STRIP = 16; /* rows of a warp, and rows of a tile that it takes at a time */

#if __CUDA_ARCH__ >= 800
#define LOAD_MATRICES(transposed, to, row)                                                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0,%1,%2,%3}, [%4];" \
                 : "=r"((to)[0]), "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3])                  \
                 : "r"((uint32_t)__cvta_generic_to_shared(row))                                \
                 : "memory")
#else
#define LOAD_MATRICES(transposed, to, row) (void)(to), (void)(row)
#endif
/* Four blocks of 8 x 8 numbers; lanes 8 k to 8 k + 7 give the addresses of the rows of block k. Of
 * each a thread gets row g, columns 2 t and the next: ldmatrix. */
__device__ static inline void load_blocks(uint32_t *to, const void *row)
{
    LOAD_MATRICES("", to, row);
}

/* The same, but of each block a thread gets rows 2 t and the next, of column g: with .trans. */
__device__ static inline void load_transposed(uint32_t *to, const void *row)
{
    LOAD_MATRICES(".trans", to, row);
}
#undef LOAD_MATRICES

/* product = a times the STRIP rows at `rows`: product[n][i] is that of row g + 8 (i / 2) of a and
 * row 8 n + 2 t + i % 2. */
template <typename T, int WIDTH, int PITCH>
__device__ static inline void multiply_rows(float (*product)[4], const uint32_t (&a)[WIDTH / 16][4],
                                            const uint16_t *rows)
{
    const int lane = threadIdx.x % 32;
    /* blocks: columns 0 to 7, then 8 to 15, of rows 0 to 7; then of the next eight rows */
    const uint16_t *row = &rows[(lane % 8 + 8 * (lane / 16)) * PITCH + 8 * (lane / 8 % 2)];

#pragma unroll
    for (int n = 0; n < STRIP / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            product[n][i] = 0;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t four[4];

        load_blocks(four, row + 16 * k);
        fragment_multiply<T>(product[0], a[k], four[0], four[1]);
        fragment_multiply<T>(product[1], a[k], four[2], four[3]);
    }
}

/* Rounds factors[n][i], of row g + 8 (i / 2) and column 8 n + 2 t + i % 2, to an operand a. */
template <typename T>
__device__ static inline void pack_factors(uint32_t (&a)[4], const float (*factors)[4])
{
    a[0] = fragment_pack<T>(factors[0][0], factors[0][1]);
    a[1] = fragment_pack<T>(factors[0][2], factors[0][3]);
    a[2] = fragment_pack<T>(factors[1][0], factors[1][1]);
    a[3] = fragment_pack<T>(factors[1][2], factors[1][3]);
}

/* sum += a times the STRIP rows at `rows`, of which COLUMNS columns are those of the sum. */
template <typename T, int COLUMNS, int PITCH>
__device__ static inline void add_weighted(float (&sum)[COLUMNS / 8][4], const uint32_t (&a)[4],
                                           const uint16_t *rows)
{
    const int lane = threadIdx.x % 32;
    /* blocks: rows 0 to 7, then 8 to 15, of eight columns; then of the next eight */
    const uint16_t *row = &rows[lane % 16 * PITCH + 8 * (lane / 16)];

#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n += 2) {
        uint32_t four[4];

        load_transposed(four, row + 8 * n);
        fragment_multiply<T>(sum[n], a, four[0], four[1]);
        fragment_multiply<T>(sum[n + 1], a, four[2], four[3]);
    }
}

/* The maximum and the sum over the four threads of a row; each of them gets it. */
__device__ static inline float row_maximum(float value)
{
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}
__device__ static inline float row_sum(float value)
{
    value += __shfl_xor_sync(~0u, value, 1);
    return value + __shfl_xor_sync(~0u, value, 2);
}

/* Whether some of STRIP queries from `query0` on do not attend to some of the keys of a run. */
__device__ static inline bool has_unseen(const struct cuda_attention &attention,
                                         const struct head &head, int query0, int key0, int keys)
{
    return key0 + keys > head.keys || (attention.causal && key0 + keys - 1 > query0);
}

/* ---- forward ---- */

/* What a warp knows of its rows g and g + 8: the largest product, and the sums of the exponentials
 * and of what they weigh. */
template <int WIDTH> struct running {
    float maximum[2], total[2], sum[WIDTH / 8][4];
};

template <int WIDTH> __device__ static inline void begin_running(struct running<WIDTH> &running)
{
    for (int h = 0; h < 2; h++) {
        running.maximum[h] = -INFINITY;
        running.total[h] = 0;
    }
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            running.sum[n][i] = 0;
}

/* Takes the keys and values of a tile of KEYS rows: those that some of the queries attend to. */
template <typename T, int WIDTH, int PITCH, int KEYS>
__device__ static inline void
take_tile(const struct cuda_attention &attention, const struct head &head, int query0, int key0,
          const uint32_t (&query)[WIDTH / 16][4], const uint16_t *keys, const uint16_t *values,
          struct running<WIDTH> &running)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int rows = keys_before(attention, head, query0 + STRIP) - key0;
    const int strips = min((rows + STRIP - 1) / STRIP, KEYS / STRIP);
    const bool masked = has_unseen(attention, head, query0, key0, strips * STRIP);
    const float scale = head.scale * LOG2_E;
    float product[KEYS / 8][4], more[2] = {}, base[2], factor[2];

    if (rows <= 0)
        return;
#pragma unroll
    for (int s = 0; s < KEYS / STRIP; s++)
        if (s < strips) {
            multiply_rows<T, WIDTH, PITCH>(&product[2 * s], query, keys + s * STRIP * PITCH);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                product[2 * s + i / 4][i % 4] = -INFINITY;
        }
    if (masked)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (!is_seen(attention, head, query0 + g + 8 * (i / 2),
                             key0 + 8 * n + 2 * t + i % 2))
                    product[n][i] = -INFINITY;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float largest = running.maximum[h];

#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
            largest = fmaxf(largest, fmaxf(product[n][2 * h], product[n][2 * h + 1]));
        largest = row_maximum(largest);
        base[h] = largest > -INFINITY ? largest * scale : 0;
        factor[h] = power_of_two(running.maximum[h] * scale - base[h]);
        running.maximum[h] = largest;
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product[n][i] = power_of_two(product[n][i] * scale - base[i / 2]);
            more[i / 2] += product[n][i];
        }
#pragma unroll
    for (int h = 0; h < 2; h++)
        running.total[h] = running.total[h] * factor[h] + row_sum(more[h]);
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            running.sum[n][i] *= factor[i / 2];
#pragma unroll
    for (int s = 0; s < KEYS / STRIP; s++)
        if (s < strips) {
            uint32_t weights[4];

            pack_factors<T>(weights, &product[2 * s]);
            add_weighted<T, WIDTH, PITCH>(running.sum, weights, values + s * STRIP * PITCH);
        }
}

/* Stores log_sum_exp of the rows, and makes `total` what their sums are to be multiplied by. */
template <int WIDTH>
__device__ static inline void end_running(const struct cuda_attention &attention,
                                          const struct head &head, int query0,
                                          struct running<WIDTH> &running)
{
    for (int h = 0; h < 2; h++) {
        const int at = query0 + threadIdx.x % 32 / 4 + 8 * h;

        if (attention.log_sum_exp && threadIdx.x % 4 == 0 && at < attention.steps)
            attention.log_sum_exp[head.sums + at] =
                running.maximum[h] * head.scale + logf(running.total[h]);
        running.total[h] = running.total[h] > 0 ? 1 / running.total[h] : running.total[h];
    }
}

/* ---- backward ---- */

/* Turns products of queries and keys, and of rows of dy and values, to probabilities and slopes:
 * with d = dy . y, slope = probability (gradient - d) scale. `sums` is log_sum_exp times LOG2_E and
 * `deltas` is -d scale, both of a pair's query. */
__device__ static inline void make_slope(float &product, float &gradient, float scale, float sum,
                                         float delta, bool seen)
{
    product = seen ? power_of_two(product * (scale * LOG2_E) - sum) : 0;
    gradient = product * (gradient * scale + delta);
}
