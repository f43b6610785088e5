/* batch_norm_whole.cu: batch normalisation of few rows in one launch each way. The blocks of a tile
 * are a cluster. Their threads keep what they have read in registers while the blocks exchange
 * their sums through shared memory, so that nothing is read twice.
 *
 * Where there are few channels, some adjacent rows count as one row with as many times the channels
 * (folded), so that a thread still has eight adjacent numbers. The sums of a channel's places in
 * such a row are added up at the end. */
#include "engine/backends/cuda/kernels/batch_norm.cuh"
#include "engine/backends/cuda/kernels/batch_norm_tile.cuh"

#include <cooperative_groups.h>
#include <math.h>

namespace cg = cooperative_groups;

constexpr int CLUSTER_MAX = 8; /* blocks: as many as any device of generation 9 can run together */

/* How many rows a thread holds of each array, where its pass reads so many arrays: as many as 64
 * registers hold of all of them, and at most eight. */
template <typename T, int ARRAYS>
constexpr int ROWS_HELD = 32 / (ARRAYS * sizeof(T)) >= 8   ? 8
                          : 32 / (ARRAYS * sizeof(T)) >= 4 ? 4
                                                           : 2;

/* ---- a thread's part ------------------------------------------------------------------------- */

/* Where a thread's numbers and channels are. Every thread takes part in the cluster's sums, also
 * one that has no channel. */
struct part {
    struct tile tile; /* of folded rows */
    int channels;     /* of a row as it is: a folded one repeats them */
    int rank;         /* of the block in its cluster */
    bool works;
};

__device__ static inline struct part part_of(const struct cuda_batch_norm &n, int fold)
{
    struct part p;

    p.tile = tile_of<true>(n, SUM_LANES);
    p.tile.rows /= fold;
    p.tile.channels *= fold;
    p.channels = (int)n.channels;
    p.rank = (int)blockIdx.x;
    p.works = p.tile.channel < p.tile.channels;
    return p;
}

/* The thread's values of an array that has one for each channel. */
template <typename T>
__device__ static inline struct group load_folded(const T *from, const struct part &p)
{
    struct group g;

#pragma unroll
    for (int k = 0; k < GROUP; k++)
        g.value[k] = p.works ? to_float(from[(p.tile.channel + k) % p.channels]) : 0.0f;
    return g;
}

/* The thread's values of what the block has in shared memory for each channel of its tile. */
__device__ static inline struct group group_of(const float (&shared)[TILE_CHANNELS])
{
    struct group g;

#pragma unroll
    for (int k = 0; k < GROUP; k++)
        g.value[k] = shared[(int)threadIdx.x % TILE * GROUP + k];
    return g;
}

template <int KIND> struct activation_constant {
    static constexpr int kind = KIND;
};

/* Calls `work` with an activation_constant of one of the kinds that batch norm takes along. */
template <typename Work> __device__ static __forceinline__ void with_activation(int kind, Work work)
{
    switch (kind) {
    case ACTIVATION_RELU:
        work(activation_constant<ACTIVATION_RELU>());
        break;
    case ACTIVATION_SILU:
        work(activation_constant<ACTIVATION_SILU>());
        break;
    case ACTIVATION_HARDSWISH:
        work(activation_constant<ACTIVATION_HARDSWISH>());
        break;
    case ACTIVATION_GELU:
        work(activation_constant<ACTIVATION_GELU>());
        break;
    default:
        work(activation_constant<NO_ACTIVATION>());
    }
}

/* ---- sums of a cluster ----------------------------------------------------------------------- */

/* What a block has in shared memory. */
struct whole_space {
    union sum_space space;
    float partial[SUMS];             /* the block's sums, which the cluster's other blocks read */
    double sums[2][TILE_CHANNELS];   /* the cluster's */
    float channel[2][TILE_CHANNELS]; /* what the threads need of each channel */
};

/* Adds up two kinds of sums of all threads of the cluster. space->sums receives them by channel: of
 * the tile, or of a row as it is. Every block adds up the same numbers in the same order. */
__device__ static inline void sum_cluster(struct whole_space *s, const float (&value)[2][GROUP],
                                          const struct part &p, int fold)
{
#if __CUDA_ARCH__ >= 900
    const cg::cluster_group cluster = cg::this_cluster();
    const int kind = (int)threadIdx.x / TILE_CHANNELS, c = (int)threadIdx.x % TILE_CHANNELS;

    sum_block(&s->space, value, s->partial);
    cluster.sync(); /* all blocks have stored their sums */
    if (threadIdx.x < SUMS) {
        const int at =
            kind * TILE_CHANNELS + c % GROUP * TILE + c / GROUP; /* as sum_block() has it */
        double total = 0;

        for (int rank = 0; rank < (int)gridDim.x; rank++)
            total += cluster.map_shared_rank(s->partial, rank)[at];
        s->sums[kind][c] = total;
    }
    cluster.sync(); /* no block reads another one's memory any more: it may end */
    for (int half = fold / 2; half > 0; half /= 2) {
        if (threadIdx.x < SUMS && c < half * p.channels)
            s->sums[kind][c] += s->sums[kind][c + half * p.channels];
        __syncthreads();
    }
#endif
}

/* The channel that thread threadIdx.x of the first TILE_CHANNELS finishes, or -1: its place in the
 * tile is that thread's number. `sum` receives where its sums are. */
__device__ static inline int channel_of(const struct part &p, int *sum)
{
    const int c = (int)blockIdx.y * TILE_CHANNELS + (int)threadIdx.x;

    *sum = (int)threadIdx.x % p.channels;
    return threadIdx.x < TILE_CHANNELS && c < p.tile.channels ? c % p.channels : -1;
}

/* Whether the thread stores what its channel has: one does. */
__device__ static inline bool stores(const struct part &p, int channel)
{
    return channel >= 0 && p.rank == 0 && (int)threadIdx.x < p.channels;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* ARRAYS 2: with an addend; TWO: that is normalised, too. */
template <typename T, int ARRAYS, bool TWO>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    whole_train_kernel(struct cuda_batch_norm n, int fold)
{
    constexpr int ROWS = ROWS_HELD<T, ARRAYS>;
    __shared__ struct whole_space space;
    const struct part p = part_of(n, fold);
    const struct tile &t = p.tile;
    union packed<T> x[ROWS], other[ARRAYS == 2 ? ROWS : 1];
    float value[2][GROUP] = {};

    if (p.works) {
        load_rows<true>(x, n.x, t, t.first);
        if (ARRAYS == 2)
            load_rows<true>(other, n.addend, t, t.first);
    }
    const struct group origin = load_folded((const T *)n.x.at, p);
    struct group factor = load_folded(n.weight, p), offset = load_folded(n.bias, p), more = {};

    if (TWO) {
        const struct group mean = load_folded(n.second.mean, p);
        const struct group bias = load_folded(n.second.bias, p);
        const struct group spread = load_folded(n.second.inverse_std, p);

        more = load_folded(n.second.weight, p);
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            more.value[k] *= spread.value[k];
            offset.value[k] += bias.value[k] - mean.value[k] * more.value[k];
        }
    }
#pragma unroll
    for (int u = 0; u < ROWS; u++)
        if (p.works && t.first + u * t.step < t.rows)
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                float d = to_float(x[u].value[k]) - origin.value[k];

                value[0][k] += d;
                value[1][k] += d * d;
            }
    sum_cluster(&space, value, p, fold);

    int at;
    const int channel = channel_of(p, &at);
    struct moments m = {};

    if (channel >= 0) {
        m = moments_of(n, to_float(((const T *)n.x.at)[channel]), space.sums[0][at],
                       space.sums[1][at]);
        space.channel[0][threadIdx.x] = (float)m.mean;
        space.channel[1][threadIdx.x] = m.inverse_std;
    }
    __syncthreads();
    if (p.works) {
        const struct group mean = group_of(space.channel[0]), spread = group_of(space.channel[1]);

#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            factor.value[k] *= spread.value[k];
            offset.value[k] -= mean.value[k] * factor.value[k];
        }
        with_activation(n.activation, [&](auto activation) {
#pragma unroll
            for (int u = 0; u < ROWS; u++) {
                struct group y;

                if (t.first + u * t.step >= t.rows)
                    break;
#pragma unroll
                for (int k = 0; k < GROUP; k++) {
                    y.value[k] = to_float(x[u].value[k]) * factor.value[k] + offset.value[k];
                    if (ARRAYS == 2)
                        y.value[k] += to_float(other[ARRAYS == 2 ? u : 0].value[k]) *
                                      (TWO ? more.value[k] : 1.0f);
                    y.value[k] = activated<decltype(activation)::kind>(y.value[k]);
                }
                store_row<true>((T *)n.y.at, t, t.first + u * t.step, y);
            }
        });
    }
    if (stores(p, channel)) {
        float running[2] = {};

        if (n.running_mean) {
            running[0] = n.running_mean[channel];
            running[1] = n.running_variance[channel];
        }
        store_moments(n, channel, m, running);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The gradient by the result where a ReLU's result or operand tells the mask, and where gradients
 * are added, is computed first, rounded, and stored; then dy[] holds it. */
template <typename T, int SOURCE, int ROWS>
__device__ static inline void
mask_rows(union packed<T> (&dy)[ROWS], const union packed<T> (&x)[ROWS],
          const struct cuda_batch_norm &n, const struct cuda_batch_norm_gradient &g,
          const struct tile &t, const struct group &factor, const struct group &offset)
{
    union packed<T> result[ROWS], other[ROWS];

    if (g.result.at)
        load_rows<true>(result, g.result, t, t.first);
    if (SOURCE == SOURCE_SUM)
        load_rows<true>(other, g.other, t, t.first);
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        struct group masked;

        if (t.first + u * t.step >= t.rows)
            break;
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            float d = to_float(dy[u].value[k]);

            if (SOURCE == SOURCE_SUM)
                d += to_float(other[u].value[k]);
            d = taken_back<ACTIVATION_RELU>(
                d, g.result.at ? to_float(result[u].value[k])
                               : to_float(x[u].value[k]) * factor.value[k] + offset.value[k]);
            dy[u].value[k] = from_float<T>(d);
            masked.value[k] = d;
        }
        store_row<true>((T *)g.masked.at, t, t.first + u * t.step, masked);
    }
}

template <typename T, int SOURCE, int ARRAYS>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    whole_backward_kernel(struct cuda_batch_norm n, struct cuda_batch_norm_gradient g, int fold)
{
    constexpr int ROWS = ROWS_HELD<T, ARRAYS>;
    __shared__ struct whole_space space;
    const struct part p = part_of(n, fold);
    const struct tile &t = p.tile;
    const int kind = SOURCE == SOURCE_GIVEN ? n.activation : NO_ACTIVATION;
    union packed<T> x[ROWS], dy[ROWS];
    float value[2][GROUP] = {};

    if (p.works) {
        load_rows<true>(x, n.x, t, t.first);
        load_rows<true>(dy, g.dy, t, t.first);
    }
    const struct group mean = load_folded((const float *)n.mean, p);
    const struct group spread = load_folded((const float *)n.inverse_std, p);
    struct group factor = load_folded(n.weight, p), offset = {};

    if (n.bias)
        offset = load_folded(n.bias, p);
#pragma unroll
    for (int k = 0; k < GROUP; k++) {
        factor.value[k] *= spread.value[k];
        offset.value[k] -= mean.value[k] * factor.value[k];
    }
    if (SOURCE != SOURCE_GIVEN && p.works)
        mask_rows<T, SOURCE, ROWS>(dy, x, n, g, t, factor, offset);
    if (p.works)
        with_activation(kind, [&](auto activation) {
#pragma unroll
            for (int u = 0; u < ROWS; u++) {
                if (t.first + u * t.step >= t.rows)
                    break;
#pragma unroll
                for (int k = 0; k < GROUP; k++) {
                    const float v = to_float(x[u].value[k]);
                    const float d = taken_back<decltype(activation)::kind>(
                        to_float(dy[u].value[k]), v * factor.value[k] + offset.value[k]);

                    value[0][k] += d;
                    value[1][k] += d * (v - mean.value[k]);
                }
            }
        });
    sum_cluster(&space, value, p, fold);

    int at;
    const int channel = channel_of(p, &at);

    if (channel >= 0) {
        const float inverse_std = n.inverse_std[channel];
        const double sum = space.sums[0][at], product = space.sums[1][at] * inverse_std;

        space.channel[0][threadIdx.x] = (float)(sum * n.inverse_rows);
        space.channel[1][threadIdx.x] = (float)(product * n.inverse_rows) * inverse_std;
        if (stores(p, channel)) {
            g.dweight[channel] = (g.accumulate ? g.dweight[channel] : 0.0f) + (float)product;
            g.dbias[channel] = (g.accumulate ? g.dbias[channel] : 0.0f) + (float)sum;
        }
    }
    __syncthreads();
    if (!p.works)
        return;
    const struct group by_one = group_of(space.channel[0]), by_x = group_of(space.channel[1]);

    with_activation(kind, [&](auto activation) {
#pragma unroll
        for (int u = 0; u < ROWS; u++) {
            struct group result;

            if (t.first + u * t.step >= t.rows)
                break;
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                const float v = to_float(x[u].value[k]);
                const float d = taken_back<decltype(activation)::kind>(
                    to_float(dy[u].value[k]), v * factor.value[k] + offset.value[k]);

                result.value[k] =
                    factor.value[k] * (d - by_one.value[k] - (v - mean.value[k]) * by_x.value[k]);
            }
            store_row<true>((T *)g.dx.at, t, t.first + u * t.step, result);
        }
    });
}

/* ---- launches -------------------------------------------------------------------------------- */

/* How many rows count as one: the largest power of two that divides them, with at most a tile's
 * channels. 0: eight does not divide the channels then. */
static int fold_of(const struct cuda_batch_norm *n)
{
    int fold = 1;

    while (n->channels * fold * 2 <= TILE_CHANNELS && n->rows % (fold * 2) == 0)
        fold *= 2;
    return n->channels * fold % GROUP == 0 ? fold : 0;
}

/* Blocks of SUM_LANES rows that hold all rows, a power of two. */
static int cluster_of(const struct cuda_batch_norm *n, int fold)
{
    const int64_t rows = n->rows / fold;
    int blocks = 1;

    while (blocks < CLUSTER_MAX && (int64_t)blocks * SUM_LANES < rows)
        blocks *= 2;
    return blocks;
}

template <typename T> static int64_t rows_max(int arrays)
{
    const int held[] = {ROWS_HELD<T, 1>, ROWS_HELD<T, 2>, ROWS_HELD<T, 3>, ROWS_HELD<T, 4>};

    return (int64_t)CLUSTER_MAX * SUM_LANES * held[arrays - 1];
}

bool cuda_batch_norm_can_be_whole(const struct cuda_batch_norm *n, int arrays)
{
    const int fold = fold_of(n);

    return cuda_batch_norm_is_fast(n) && n->overlaps && fold > 0 &&
           n->rows / fold <=
               (n->x.type == TENSOR_FLOAT32 ? rows_max<float>(arrays) : rows_max<__half>(arrays));
}

template <typename... Parameters, typename... Arguments>
static cudaError_t launch_cluster(const struct cuda_batch_norm *n, void (*kernel)(Parameters...),
                                  int fold, cudaStream_t stream, Arguments... arguments)
{
    const unsigned tiles = (unsigned)((n->channels * fold + TILE_CHANNELS - 1) / TILE_CHANNELS);
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};

    config.gridDim = dim3((unsigned)cluster_of(n, fold), tiles);
    config.blockDim = dim3(SUM_THREADS);
    config.stream = stream;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = config.gridDim.x;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, arguments..., fold);
}

template <typename T> static cudaError_t train(const struct cuda_batch_norm *n, cudaStream_t stream)
{
    const int fold = fold_of(n);

    if (!n->addend.at)
        return launch_cluster(n, whole_train_kernel<T, 1, false>, fold, stream, *n);
    return launch_cluster(
        n, n->second.weight ? whole_train_kernel<T, 2, true> : whole_train_kernel<T, 2, false>,
        fold, stream, *n);
}

template <typename T>
static cudaError_t backward(const struct cuda_batch_norm *n,
                            const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    const int fold = fold_of(n);

    if (g->other.at)
        return launch_cluster(n, whole_backward_kernel<T, SOURCE_SUM, 4>, fold, stream, *n, *g);
    if (g->result.at)
        return launch_cluster(n, whole_backward_kernel<T, SOURCE_MASKED, 3>, fold, stream, *n, *g);
    return launch_cluster(n, whole_backward_kernel<T, SOURCE_GIVEN, 2>, fold, stream, *n, *g);
}

cudaError_t norm_whole_train(const struct cuda_batch_norm *n, cudaStream_t stream)
{
    switch (n->x.type) {
    case TENSOR_BFLOAT16:
        return train<__nv_bfloat16>(n, stream);
    case TENSOR_FLOAT16:
        return train<__half>(n, stream);
    default:
        return train<float>(n, stream);
    }
}

cudaError_t norm_whole_backward(const struct cuda_batch_norm *n,
                                const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    switch (n->x.type) {
    case TENSOR_BFLOAT16:
        return backward<__nv_bfloat16>(n, g, stream);
    case TENSOR_FLOAT16:
        return backward<__half>(n, g, stream);
    default:
        return backward<float>(n, g, stream);
    }
}
