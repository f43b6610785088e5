/* batch_norm.cu: batch normalisation of rows of channels (matrices, and images channels-last), with
 * the sum and the activation behind it and their gradients: Ioffe and Szegedy 2015,
 * arXiv:1502.03167. All of it waits for memory, so each pass reads what it needs once, 16 bytes a
 * time and several under way in each thread:
 *
 *   forward    moments: reads x; apply: reads x (and the other summand), writes y
 *   backward   sums: reads x, dy (and what tells the mask); gradient: reads x, dy, writes dx
 *
 * A tile is 64 channels of many rows; a thread has 8 of them in every 64th row. Sums: each block of
 * a tile leaves its own, and the last to arrive adds them up, in the order of the blocks, in double:
 * the same bits whichever comes last. Moments are sums of differences from the channel's first
 * value, lest large means take the digits of small variances. */
#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/batch_norm.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

constexpr int TILE = 8;                  /* groups side by side */
constexpr int TILE_CHANNELS = TILE * GROUP;
constexpr int SUM_THREADS = 512;         /* of the kernels that sum: one block to a multiprocessor */
constexpr int SUM_LANES = SUM_THREADS / TILE;
constexpr int SUMS = 2 * TILE_CHANNELS;  /* of a block: two for each channel */
constexpr int APPLY_THREADS = 256;       /* of those that do not */
constexpr int APPLY_LANES = APPLY_THREADS / TILE;
constexpr int APPLY_ROWS = 4; /* a thread's */

/* The launch's tile in rows of channels. */
struct tile {
    int64_t rows, channels, first, step; /* rows of a thread */
    int64_t channel;                     /* a thread's first of GROUP; beyond channels: it idles */
};

__device__ static inline float activate_by(int activation, float x)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return activate<ACTIVATION_RELU>(x);
    case ACTIVATION_SILU:
        return activate<ACTIVATION_SILU>(x);
    case ACTIVATION_HARDSWISH:
        return activate<ACTIVATION_HARDSWISH>(x);
    default:
        return x;
    }
}

/* From the activation's operand. */
__device__ static inline float slope_by(int activation, float dy, float x)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return activate_backward<ACTIVATION_RELU>(dy, x);
    case ACTIVATION_SILU:
        return activate_backward<ACTIVATION_SILU>(dy, x);
    case ACTIVATION_HARDSWISH:
        return activate_backward<ACTIVATION_HARDSWISH>(dy, x);
    default:
        return dy;
    }
}

/* ---- sums of a tile ---------------------------------------------------------------------------
 */

/* The block's sums of what its threads have, one for each channel of two kinds, to `partial`. */
__device__ static void sum_block(const float (&value)[2][GROUP], float *partial)
{
    __shared__ float shared[2 * GROUP][SUM_THREADS];
    const int j = threadIdx.x / 4, quarter = threadIdx.x % 4; /* four threads for each sum */
    float total = 0;

#pragma unroll
    for (int k = 0; k < 2 * GROUP; k++)
        shared[k][threadIdx.x] = value[k / GROUP][k % GROUP];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SUM_LANES / 4; i++)
        total += shared[j / TILE][(4 * i + quarter) * TILE + j % TILE];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (quarter == 0)
        partial[j] = total;
}

/* Whether the block is the last of its tile to come here; then it sees what the others left. */
__device__ static bool arrives_last(unsigned *arrivals)
{
    __shared__ bool last;

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&arrivals[blockIdx.y], 1) == gridDim.x - 1;
        if (last)
            arrivals[blockIdx.y] = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* The sums of all blocks of the tile, of channel blockIdx.y TILE_CHANNELS + threadIdx.x in the first
 * threads. */
__device__ static void sum_tile(const float *partial, double *first, double *second)
{
    constexpr int PARTS = SUM_THREADS / SUMS;
    __shared__ double shared[PARTS][SUMS];
    const int j = threadIdx.x % SUMS, part = threadIdx.x / SUMS;
    double total = 0;

    partial += (int64_t)blockIdx.y * gridDim.x * SUMS;
#pragma unroll 8
    for (int p = part; p < gridDim.x; p += PARTS)
        total += __ldcg(&partial[p * SUMS + j]);
    shared[part][j] = total;
    __syncthreads();
    if (threadIdx.x >= TILE_CHANNELS)
        return;
    /* sum_block() numbers them by kind, place in the group, group */
    const int at = (int)threadIdx.x % GROUP * TILE + (int)threadIdx.x / GROUP;

    *first = *second = 0;
    for (int k = 0; k < PARTS; k++) {
        *first += shared[k][at];
        *second += shared[k][at + TILE_CHANNELS];
    }
}

__device__ static inline struct tile tile_of(int64_t rows, int64_t channels, int lanes)
{
    const int64_t lane = threadIdx.x / TILE;

    return {rows, channels, (int64_t)blockIdx.x * lanes + lane, (int64_t)gridDim.x * lanes,
            ((int64_t)blockIdx.y * TILE + threadIdx.x % TILE) * GROUP};
}

/* ---- forward ----------------------------------------------------------------------------------
 */

/* Of the channel, from the sums of differences from `origin` and of their squares. */
__device__ static void finish_moments(const struct cuda_batch_norm &n, int64_t c, float origin,
                                      double sum, double squares)
{
    const double count = (double)n.rows, momentum = n.momentum;
    const double mean = origin + sum / count;
    double around = squares - sum * sum / count; /* the sum of squares around the mean */

    around = around < 0 ? 0 : around; /* NaN stays */
    n.mean[c] = (float)mean;
    n.inverse_std[c] = (float)(1.0 / sqrt(around / count + (double)n.epsilon));
    if (!n.running_mean)
        return;
    n.running_mean[c] = (float)((1 - momentum) * n.running_mean[c] + momentum * mean);
    n.running_variance[c] =
        (float)((1 - momentum) * n.running_variance[c] + momentum * around / (count - 1));
}

template <typename T, int UNDER_WAY>
__global__ void __launch_bounds__(SUM_THREADS, 1) moments_kernel(struct cuda_batch_norm n)
{
    const struct tile t = tile_of(n.rows, n.channels, SUM_LANES);
    const T *x = (const T *)n.x.at + t.channel;
    float value[2][GROUP] = {};
    double sum, squares;

    if (t.channel < t.channels) {
        const struct group origin = group_load(x);

        for (int64_t row = t.first; row < t.rows; row += UNDER_WAY * t.step) {
            union packed<T> raw[UNDER_WAY];

#pragma unroll
            for (int u = 0; u < UNDER_WAY; u++)
                if (row + u * t.step < t.rows)
                    packed_load(&raw[u], x + (row + u * t.step) * t.channels);
#pragma unroll
            for (int u = 0; u < UNDER_WAY; u++)
#pragma unroll
                for (int k = 0; k < GROUP; k++)
                    if (row + u * t.step < t.rows) {
                        float d = to_float(raw[u].value[k]) - origin.value[k];

                        value[0][k] += d;
                        value[1][k] += d * d;
                    }
        }
    }
    sum_block(value, n.partial + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * SUMS);
    if (!arrives_last(n.arrivals))
        return;
    sum_tile(n.partial, &sum, &squares);
    const int64_t c = (int64_t)blockIdx.y * TILE_CHANNELS + threadIdx.x;

    if (threadIdx.x < TILE_CHANNELS && c < n.channels)
        finish_moments(n, c, to_float(((const T *)n.x.at)[c]), sum, squares);
}

/* y = activation(x factor + offset (+ addend)) */
template <typename T>
__global__ void __launch_bounds__(APPLY_THREADS) apply_kernel(struct cuda_batch_norm n, bool running)
{
    const struct tile t = tile_of(n.rows, n.channels, APPLY_LANES);
    const T *x = (const T *)n.x.at, *addend = (const T *)n.addend.at;
    union packed<T> raw[APPLY_ROWS], other[APPLY_ROWS];
    struct group factor, offset;

    if (t.channel >= t.channels)
        return;
#pragma unroll
    for (int u = 0; u < APPLY_ROWS; u++) {
        const int64_t row = t.first + u * t.step;

        if (row >= t.rows)
            break;
        packed_load(&raw[u], x + row * t.channels + t.channel);
        if (addend)
            packed_load(&other[u], addend + row * t.channels + t.channel);
    }
    factor = norm_factor(n, t.channel, running);
    offset = norm_offset(n, t.channel, running, factor);
#pragma unroll
    for (int u = 0; u < APPLY_ROWS; u++) {
        const int64_t row = t.first + u * t.step;
        struct group y;

        if (row >= t.rows)
            break;
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            y.value[k] = to_float(raw[u].value[k]) * factor.value[k] + offset.value[k];
            if (addend)
                y.value[k] += to_float(other[u].value[k]);
            y.value[k] = activate_by(n.activation, y.value[k]);
        }
        group_store((T *)n.y.at + row * t.channels + t.channel, y);
    }
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* How the gradient by the normalisation's own result comes about. */
enum source {
    SOURCE_GIVEN,  /* it is dy */
    SOURCE_SLOPE,  /* dy through the activation, whose operand is made from x again */
    SOURCE_MASKED, /* dy (+ other) where `result` is above zero; stored, too */
};

template <typename T, int SOURCE>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    sums_kernel(struct cuda_batch_norm n, struct cuda_batch_norm_gradient g)
{
    constexpr int UNDER_WAY = sizeof(T) == 2 ? (SOURCE == SOURCE_MASKED ? 3 : 4) : 2;
    const struct tile t = tile_of(n.rows, n.channels, SUM_LANES);
    float value[2][GROUP] = {};
    double sum, product;

    if (t.channel < t.channels) {
        const struct group mean = group_load(n.mean + t.channel);
        struct group factor = {}, offset = {};

        if (SOURCE == SOURCE_SLOPE) {
            factor = norm_factor(n, t.channel, false);
            offset = norm_offset(n, t.channel, false, factor);
        }
        for (int64_t row = t.first; row < t.rows; row += UNDER_WAY * t.step) {
            union packed<T> x[UNDER_WAY], dy[UNDER_WAY], other[UNDER_WAY], result[UNDER_WAY];

#pragma unroll
            for (int u = 0; u < UNDER_WAY; u++) {
                const int64_t at = (row + u * t.step) * t.channels + t.channel;

                if (row + u * t.step >= t.rows)
                    break;
                packed_load(&x[u], (const T *)n.x.at + at);
                packed_load(&dy[u], (const T *)g.dy.at + at);
                if (SOURCE == SOURCE_MASKED) {
                    packed_load(&result[u], (const T *)g.result.at + at);
                    if (g.other.at)
                        packed_load(&other[u], (const T *)g.other.at + at);
                }
            }
#pragma unroll
            for (int u = 0; u < UNDER_WAY; u++) {
                const int64_t at = (row + u * t.step) * t.channels + t.channel;
                struct group masked;

                if (row + u * t.step >= t.rows)
                    break;
#pragma unroll
                for (int k = 0; k < GROUP; k++) {
                    float d = to_float(dy[u].value[k]), v = to_float(x[u].value[k]);

                    if (SOURCE == SOURCE_SLOPE)
                        d = slope_by(n.activation, d, v * factor.value[k] + offset.value[k]);
                    if (SOURCE == SOURCE_MASKED) {
                        if (g.other.at)
                            d += to_float(other[u].value[k]);
                        /* as it is stored, and as the second pass reads it */
                        d = to_float(from_float<T>(
                            activate_backward<ACTIVATION_RELU>(d, to_float(result[u].value[k]))));
                        masked.value[k] = d;
                    }
                    value[0][k] += d;
                    value[1][k] += d * (v - mean.value[k]);
                }
                if (SOURCE == SOURCE_MASKED)
                    group_store((T *)g.masked.at + at, masked);
            }
        }
    }
    sum_block(value, n.partial + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * SUMS);
    if (!arrives_last(n.arrivals))
        return;
    sum_tile(n.partial, &sum, &product);
    const int64_t c = (int64_t)blockIdx.y * TILE_CHANNELS + threadIdx.x;

    if (threadIdx.x >= TILE_CHANNELS || c >= n.channels)
        return;
    product *= n.inverse_std[c];
    g.dweight[c] = (float)product + (g.accumulate ? g.dweight[c] : 0.0f);
    g.dbias[c] = (float)sum + (g.accumulate ? g.dbias[c] : 0.0f);
    n.means[c] = (float)(sum / (double)n.rows);
    n.means[n.channels + c] = (float)(product / (double)n.rows);
}

/* dx = weight inverse_std (d - mean(d) - x^ mean(d x^)), x^ the normalised x, d the gradient by the
 * result; dx may lie where dy does. */
template <typename T, int SOURCE>
__global__ void __launch_bounds__(APPLY_THREADS)
    gradient_kernel(struct cuda_batch_norm n, struct cuda_array dy, struct cuda_array dx)
{
    const struct tile t = tile_of(n.rows, n.channels, APPLY_LANES);
    union packed<T> x[APPLY_ROWS], d[APPLY_ROWS];
    struct group factor, offset = {}, by_count, by_x, mean;

    if (t.channel >= t.channels)
        return;
#pragma unroll
    for (int u = 0; u < APPLY_ROWS; u++) {
        const int64_t at = (t.first + u * t.step) * t.channels + t.channel;

        if (t.first + u * t.step >= t.rows)
            break;
        packed_load(&x[u], (const T *)n.x.at + at);
        packed_load(&d[u], (const T *)dy.at + at);
    }
    factor = norm_factor(n, t.channel, false);
    if (SOURCE == SOURCE_SLOPE)
        offset = norm_offset(n, t.channel, false, factor);
    mean = group_load(n.mean + t.channel);
    by_count = group_load(n.means + t.channel);
    by_x = group_load(n.means + n.channels + t.channel);
    {
        const struct group inverse_std = group_load(n.inverse_std + t.channel);

#pragma unroll
        for (int k = 0; k < GROUP; k++)
            by_x.value[k] *= inverse_std.value[k];
    }
#pragma unroll
    for (int u = 0; u < APPLY_ROWS; u++) {
        const int64_t at = (t.first + u * t.step) * t.channels + t.channel;
        struct group result;

        if (t.first + u * t.step >= t.rows)
            break;
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            float v = to_float(x[u].value[k]), by_y = to_float(d[u].value[k]);

            if (SOURCE == SOURCE_SLOPE)
                by_y = slope_by(n.activation, by_y, v * factor.value[k] + offset.value[k]);
            result.value[k] = factor.value[k] * (by_y - by_count.value[k] -
                                                 (v - mean.value[k]) * by_x.value[k]);
        }
        group_store((T *)dx.at + at, result);
    }
}

/* ---- launches ---------------------------------------------------------------------------------
 */

static int64_t tiles_of(const struct cuda_batch_norm *n)
{
    return (n->channels + TILE_CHANNELS - 1) / TILE_CHANNELS;
}

/* Blocks that sum: one for each multiprocessor, none without rows for its threads. */
static dim3 sum_grid(const struct cuda_batch_norm *n)
{
    int64_t tiles = tiles_of(n), wanted = n->multiprocessors / tiles;
    int64_t useful = (n->rows + SUM_LANES - 1) / SUM_LANES;

    wanted = wanted < 1 ? 1 : wanted;
    return dim3((unsigned)(wanted < useful ? wanted : useful), (unsigned)tiles);
}

static dim3 apply_grid(const struct cuda_batch_norm *n)
{
    const int64_t rows = APPLY_LANES * APPLY_ROWS;

    return dim3((unsigned)((n->rows + rows - 1) / rows), (unsigned)tiles_of(n));
}

bool cuda_batch_norm_is_fast(const struct cuda_batch_norm *n)
{
    return n->pixels == 1 && n->channels % GROUP == 0 && tiles_of(n) <= CUDA_ARRIVALS &&
           n->rows <= (int64_t)INT32_MAX * APPLY_LANES * APPLY_ROWS;
}

size_t cuda_batch_norm_scratch(const struct cuda_batch_norm *n)
{
    const dim3 grid = sum_grid(n);

    return ((size_t)grid.x * grid.y * SUMS + 2 * (size_t)n->channels) * sizeof(float);
}

/* Where in the scratch the kernels leave what. */
static struct cuda_batch_norm placed(const struct cuda_batch_norm *norm)
{
    const dim3 grid = sum_grid(norm);
    struct cuda_batch_norm n = *norm;

    n.means = n.partial + (size_t)grid.x * grid.y * SUMS;
    return n;
}

#define FOR_TYPE(type, LAUNCH)                 \
    switch (type) {                            \
    case TENSOR_BFLOAT16:                      \
        LAUNCH(__nv_bfloat16);                 \
        break;                                 \
    case TENSOR_FLOAT16:                       \
        LAUNCH(__half);                        \
        break;                                 \
    default:                                   \
        LAUNCH(float);                         \
    }

static bool has_one_type(const struct cuda_batch_norm *n)
{
    return n->x.type == n->y.type && (!n->addend.at || n->addend.type == n->x.type);
}

cudaError_t cuda_batch_norm_apply(const struct cuda_batch_norm *norm, bool running,
                                  cudaStream_t stream)
{
    if (!cuda_batch_norm_is_fast(norm) || !has_one_type(norm))
        return norm_general_apply(norm, running, stream);
#define LAUNCH(T) \
    apply_kernel<T><<<apply_grid(norm), APPLY_THREADS, 0, stream>>>(*norm, running)
    FOR_TYPE(norm->x.type, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_batch_norm_train(const struct cuda_batch_norm *norm, cudaStream_t stream)
{
    if (!cuda_batch_norm_is_fast(norm))
        return norm_general_train(norm, stream);
#define LAUNCH(T)                                              \
    moments_kernel<T, sizeof(T) == 2 ? 8 : 4>                  \
        <<<sum_grid(norm), SUM_THREADS, 0, stream>>>(*norm)
    FOR_TYPE(norm->x.type, LAUNCH)
#undef LAUNCH
    return cuda_batch_norm_apply(norm, false, stream);
}

template <typename T, int SOURCE>
static void launch_backward(const struct cuda_batch_norm *norm,
                            const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    const struct cuda_batch_norm n = placed(norm);

    sums_kernel<T, SOURCE><<<sum_grid(&n), SUM_THREADS, 0, stream>>>(n, *g);
    gradient_kernel<T, SOURCE == SOURCE_MASKED ? SOURCE_GIVEN : SOURCE>
        <<<apply_grid(&n), APPLY_THREADS, 0, stream>>>(
            n, SOURCE == SOURCE_MASKED ? g->masked : g->dy, g->dx);
}

cudaError_t cuda_batch_norm_backward(const struct cuda_batch_norm *norm,
                                     const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    if (!cuda_batch_norm_is_fast(norm) || g->dy.type != norm->x.type ||
        g->dx.type != norm->x.type)
        return norm_general_backward(norm, g, stream);
#define LAUNCH(T)                                              \
    if (g->result.at)                                          \
        launch_backward<T, SOURCE_MASKED>(norm, g, stream);    \
    else if (norm->activation >= 0)                            \
        launch_backward<T, SOURCE_SLOPE>(norm, g, stream);     \
    else                                                       \
        launch_backward<T, SOURCE_GIVEN>(norm, g, stream)
    FOR_TYPE(norm->x.type, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
