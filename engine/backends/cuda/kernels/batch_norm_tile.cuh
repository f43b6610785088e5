/* batch_norm_tile.cuh: how the threads of batch_norm.cu's kernels divide rows of channels, read
 * them, and sum up. A tile is 64 channels of many rows. A thread has 8 of these channels in every
 * n-th row. WHOLE: eight divides the number of channels, so a thread's channels are neighbours,
 * which it reads and writes at once. Otherwise they are eight apart, one in each group of the tile,
 * so that the channels of a row's threads are neighbours. */
#pragma once

#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int TILE = 8; /* groups side by side */
constexpr int TILE_CHANNELS = TILE * GROUP;
constexpr int SUM_THREADS = 512; /* for the kernels that sum: one block on each multiprocessor */
constexpr int SUM_LANES = SUM_THREADS / TILE;
constexpr int SUMS = 2 * TILE_CHANNELS; /* of a block: two for each channel */

constexpr int NO_ACTIVATION = -1;

template <int ACTIVATION> __device__ static inline float activated(float x)
{
    return ACTIVATION == NO_ACTIVATION ? x : activate<ACTIVATION>(x);
}

/* The gradient with respect to the activation's operand x. */
template <int ACTIVATION> __device__ static inline float taken_back(float dy, float x)
{
    return ACTIVATION == NO_ACTIVATION ? dy : activate_backward<ACTIVATION>(dy, x);
}

/* How the gradient with respect to the normalisation's own result is computed. */
enum source {
    SOURCE_GIVEN,  /* dy */
    SOURCE_MASKED, /* dy where `result` is above zero; it is also stored */
    SOURCE_SUM     /* the same for dy + other */
    /* With an activation, its derivative is applied instead of reading `result`. Its operand is
 * recomputed from x. */
};

/* ---- rows of a thread ------------------------------------------------------------------------ */

constexpr int64_t ROWS_MAX = 1 << 30; /* 32 bits are enough to count rows, and registers are few */

struct tile {
    int rows, channels, first, step; /* rows of a thread */
    /* the first of the thread's GROUP channels; if there is no such channel, the thread idles */
    int channel;
};

template <bool WHOLE>
__device__ static inline struct tile tile_of(const struct cuda_batch_norm &n, int lanes)
{
    const int lane = (int)threadIdx.x / TILE, group = (int)threadIdx.x % TILE;

    return {(int)n.rows, (int)n.channels, (int)blockIdx.x * lanes + lane, (int)gridDim.x * lanes,
            (int)blockIdx.y * TILE_CHANNELS + (WHOLE ? group * GROUP : group)};
}

/* Whether the thread's channel number k exists. It is TILE k behind its first one, if not all
 * exist. */
__device__ static inline bool has_channel(const struct tile &t, int k)
{
    return t.channel + k * TILE < t.channels;
}

/* The index of the thread's first channel in a row. */
__device__ static inline int64_t place(const struct tile &t, int row)
{
    return (int64_t)row * t.channels + t.channel;
}

/* Loads COUNT of the thread's rows from `row` on, as far as they exist. */
template <bool WHOLE, typename T, int COUNT>
__device__ static inline void load_rows(union packed<T> (&raw)[COUNT], const struct cuda_array &a,
                                        const struct tile &t, int row)
{
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        const T *from = (const T *)a.at + place(t, row + u * t.step);

        if (row + u * t.step >= t.rows)
            continue;
        if (WHOLE) {
            packed_load(&raw[u], from);
        } else {
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                raw[u].value[k] = has_channel(t, k) ? from[k * TILE] : from_float<T>(0.0f);
        }
    }
}

template <bool WHOLE, typename T>
__device__ static inline void store_row(T *at, const struct tile &t, int row, const struct group &g)
{
    T *to = at + place(t, row);

    if (WHOLE) {
        group_store(to, g);
    } else {
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (has_channel(t, k))
                to[k * TILE] = from_float<T>(g.value[k]);
    }
}

/* Loads the thread's values of an array that has one value for each channel. */
template <bool WHOLE, typename T>
__device__ static inline struct group load_channels(const T *from, const struct tile &t)
{
    struct group g;

    if (WHOLE) {
        g = group_load(from + t.channel);
    } else {
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            g.value[k] = has_channel(t, k) ? to_float(from[t.channel + k * TILE]) : 0.0f;
    }
    return g;
}

/* Sets y = x factor + offset for the thread's channels, from the moments of the batch or the
 * running ones. */
template <bool WHOLE>
__device__ static inline struct group norm_factor(const struct cuda_batch_norm &n,
                                                  const struct tile &t, bool running)
{
    struct group factor = load_channels<WHOLE>(n.weight, t);
    const struct group spread =
        load_channels<WHOLE>((const float *)(running ? n.running_variance : n.inverse_std), t);

#pragma unroll
    for (int k = 0; k < GROUP; k++)
        factor.value[k] *= running ? 1.0f / sqrtf(spread.value[k] + n.epsilon) : spread.value[k];
    return factor;
}

template <bool WHOLE>
__device__ static inline struct group norm_offset(const struct cuda_batch_norm &n,
                                                  const struct tile &t, bool running,
                                                  const struct group &factor)
{
    struct group offset = {}, mean;

    if (!n.bias)
        return offset;
    offset = load_channels<WHOLE>(n.bias, t);
    mean = load_channels<WHOLE>((const float *)(running ? n.running_mean : n.mean), t);
#pragma unroll
    for (int k = 0; k < GROUP; k++)
        offset.value[k] -= mean.value[k] * factor.value[k];
    return offset;
}

/* Waits until the kernel before this one in the stream has ended and its results are visible. */
__device__ static inline void wait_for_launch_before()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* Lets the next kernel begin; it runs up to its own wait. */
__device__ static inline void let_next_launch_begin()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* ---- sums of a tile -------------------------------------------------------------------------- */

union sum_space {
    float values[2 * GROUP][SUM_THREADS];
    double sums[SUM_THREADS / (SUMS / 4)][SUMS];
};

/* Adds up the threads' sums of the block, two kinds for each channel, and writes them to `partial`.
 * Its order is kind, place in the group, group. */
__device__ static void sum_block(union sum_space *space, const float (&value)[2][GROUP],
                                 float *partial)
{
    const int j = threadIdx.x / 4, quarter = threadIdx.x % 4; /* four threads add up each sum */
    float total = 0;

#pragma unroll
    for (int k = 0; k < 2 * GROUP; k++)
        space->values[k][threadIdx.x] = value[k / GROUP][k % GROUP];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SUM_LANES / 4; i++)
        total += space->values[j / TILE][(4 * i + quarter) * TILE + j % TILE];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (quarter == 0)
        partial[j] = total;
}

/* The sums over all blocks of the tile. The first threads get those of channel blockIdx.y
 * TILE_CHANNELS + threadIdx.x. */
template <bool WHOLE>
__device__ static void sum_tile(union sum_space *space, const float *partial, double *first,
                                double *second)
{
    constexpr int QUADS = SUMS / 4, PARTS = SUM_THREADS / QUADS;
    const int quad = threadIdx.x % QUADS, part = threadIdx.x / QUADS;
    const float4 *from = (const float4 *)partial + (int64_t)blockIdx.y * gridDim.x * QUADS + quad;
    double total[4] = {}, sum = 0;

#pragma unroll 9
    for (int p = part; p < gridDim.x; p += PARTS) {
        const float4 v = __ldcg(&from[(int64_t)p * QUADS]);

        total[0] += v.x;
        total[1] += v.y;
        total[2] += v.z;
        total[3] += v.w;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        space->sums[part][4 * quad + k] = total[k];
    __syncthreads();
    const int j = threadIdx.x / 4, quarter = threadIdx.x % 4;

#pragma unroll
    for (int p = 0; p < PARTS / 4; p++)
        sum += space->sums[4 * p + quarter][j];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    __syncthreads();
    if (quarter == 0)
        space->sums[0][j] = sum;
    __syncthreads();
    if (threadIdx.x < TILE_CHANNELS) {
        const int at =
            WHOLE ? (int)threadIdx.x % GROUP * TILE + (int)threadIdx.x / GROUP : (int)threadIdx.x;

        *first = space->sums[0][at];
        *second = space->sums[0][at + TILE_CHANNELS];
    }
}

/* ---- moments --------------------------------------------------------------------------------- */

struct moments {
    double mean, around; /* the sum of squares around the mean */
    float inverse_std;
};

/* The channel's moments from the sums of differences from `origin` and of their squares. */
__device__ static inline struct moments moments_of(const struct cuda_batch_norm &n, float origin,
                                                   double sum, double squares)
{
    const double part = n.inverse_rows;
    double around = squares - sum * sum * part;

    around = around < 0 ? 0 : around; /* a NaN stays */
    return {origin + sum * part, around, 1.0f / sqrtf((float)(around * part + (double)n.epsilon))};
}

/* Stores them, and changes the running mean and variance, which were `running`. */
__device__ static inline void store_moments(const struct cuda_batch_norm &n, int64_t c,
                                            const struct moments &m, const float (&running)[2])
{
    const double momentum = n.momentum;

    n.mean[c] = (float)m.mean;
    n.inverse_std[c] = m.inverse_std;
    if (!n.running_mean)
        return;
    n.running_mean[c] = (float)((1 - momentum) * running[0] + momentum * m.mean);
    n.running_variance[c] =
        (float)((1 - momentum) * running[1] + momentum * m.around * n.inverse_freedom);
}
