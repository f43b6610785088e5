/* batch_norm.cu: batch normalisation of rows of channels (matrices, and channels-last images), with
 * the sum and the activation behind it and their gradients: Ioffe and Szegedy 2015,
 * arXiv:1502.03167. Memory bounds all of it. So each pass reads what it needs once, 16 bytes at a
 * time, and each thread has several loads in flight:
 *
 *   forward    moments: reads x; apply: reads x (and the other summand), writes y
 *   backward   sums: reads x, dy (and what tells the mask); gradient: reads x, dy, writes dx
 *
 * Each block of a tile stores its own sums. The last block to arrive adds them up in double, in the
 * order of the blocks. So the bits are the same whichever block is the last. Moments are sums of
 * differences from the channel's first value, so that large means do not cost the digits of small
 * variances. If the device supports it, the second kernel starts its first loads while the first
 * one ends (programmatic dependent launch). batch_norm_whole.cu does all in one launch, where few
 * blocks can hold the numbers. */
#include "engine/backends/cuda/kernels/batch_norm.cuh"
#include "engine/backends/cuda/kernels/batch_norm_tile.cuh"

#include <math.h>

constexpr int APPLY_THREADS = 256; /* of the kernels that do not sum */
constexpr int APPLY_LANES = APPLY_THREADS / TILE;
/* Blocks that run on a multiprocessor at once. On an H200, three instead of four took 0.95 of the
 * time for the gradient, because they leave more registers, but 1.05 of the time for apply. */
constexpr int APPLY_BLOCKS = 4, GRADIENT_BLOCKS = 3;
/* ---- forward --------------------------------------------------------------------------------- */

template <typename T, bool WHOLE>
__global__ void __launch_bounds__(SUM_THREADS, 1) moments_kernel(struct cuda_batch_norm n)
{
    constexpr int COUNT = sizeof(T) == 2 ? 4 : 2;
    __shared__ union sum_space space;
    const struct tile t = tile_of<WHOLE>(n, SUM_LANES);
    float value[2][GROUP] = {};
    double sum, squares;

    if (t.channel < t.channels) {
        union packed<T> now[COUNT], next[COUNT];

        load_rows<WHOLE>(now, n.x, t, t.first);
        const struct group origin = load_channels<WHOLE>((const T *)n.x.at, t);

        for (int row = t.first; row < t.rows; row += COUNT * t.step) {
            load_rows<WHOLE>(next, n.x, t, row + COUNT * t.step);
#pragma unroll
            for (int u = 0; u < COUNT; u++) {
                if (row + u * t.step < t.rows)
#pragma unroll
                    for (int k = 0; k < GROUP; k++) {
                        float d = to_float(now[u].value[k]) - origin.value[k];

                        value[0][k] += d;
                        value[1][k] += d * d;
                    }
                now[u] = next[u];
            }
        }
    }
    let_next_launch_begin();
    sum_block(&space, value, n.partial + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * SUMS);
    if (!arrives_last(&n.arrivals[blockIdx.y], gridDim.x))
        return;
    const int64_t c = (int64_t)blockIdx.y * TILE_CHANNELS + threadIdx.x;
    const bool finishes = threadIdx.x < TILE_CHANNELS && c < n.channels;
    float origin = 0, running[2] = {};

    if (finishes) {
        origin = to_float(((const T *)n.x.at)[c]);
        if (n.running_mean) {
            running[0] = n.running_mean[c];
            running[1] = n.running_variance[c];
        }
    }
    sum_tile<WHOLE>(&space, n.partial, &sum, &squares);
    if (finishes)
        store_moments(n, c, moments_of(n, origin, sum, squares), running);
}

/* The factor of the addend's own normalisation; its offset is added to `offset`. */
template <bool WHOLE>
__device__ static inline struct group add_second_norm(const struct cuda_batch_norm &n,
                                                      const struct tile &t, struct group *offset)
{
    const struct group mean = load_channels<WHOLE>(n.second.mean, t);
    const struct group bias = load_channels<WHOLE>(n.second.bias, t);
    const struct group spread = load_channels<WHOLE>(n.second.inverse_std, t);
    struct group factor = load_channels<WHOLE>(n.second.weight, t);

#pragma unroll
    for (int k = 0; k < GROUP; k++) {
        factor.value[k] *= spread.value[k];
        offset->value[k] += bias.value[k] - mean.value[k] * factor.value[k];
    }
    return factor;
}

/* y = activation(x factor + offset (+ addend)); TWO: the addend has a factor and offset, too. */
template <typename T, int ACTIVATION, bool TWO, bool WHOLE>
__global__ void __launch_bounds__(APPLY_THREADS, APPLY_BLOCKS)
    apply_kernel(struct cuda_batch_norm n, bool running)
{
    constexpr int COUNT = sizeof(T) == 2 ? 2 : 1;
    const struct tile t = tile_of<WHOLE>(n, APPLY_LANES);
    union packed<T> x[COUNT], other[COUNT];
    struct group factor, offset, more = {};

    if (t.channel >= t.channels)
        return;
    load_rows<WHOLE>(x, n.x, t, t.first);
    if (n.addend.at)
        load_rows<WHOLE>(other, n.addend, t, t.first);
    wait_for_launch_before();
    factor = norm_factor<WHOLE>(n, t, running);
    offset = norm_offset<WHOLE>(n, t, running, factor);
    if (TWO)
        more = add_second_norm<WHOLE>(n, t, &offset);
    for (int row = t.first; row < t.rows; row += COUNT * t.step) {
        if (row > t.first) {
            load_rows<WHOLE>(x, n.x, t, row);
            if (n.addend.at)
                load_rows<WHOLE>(other, n.addend, t, row);
        }
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            struct group y;

            if (row + u * t.step >= t.rows)
                break;
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                y.value[k] = to_float(x[u].value[k]) * factor.value[k] + offset.value[k];
            if (n.addend.at)
#pragma unroll
                for (int k = 0; k < GROUP; k++)
                    y.value[k] += TWO ? to_float(other[u].value[k]) * more.value[k]
                                      : to_float(other[u].value[k]);
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                y.value[k] = activated<ACTIVATION>(y.value[k]);
            store_row<WHOLE>((T *)n.y.at, t, row + u * t.step, y);
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

template <typename T, int COUNT> struct operands {
    union packed<T> x[COUNT], dy[COUNT], result[COUNT], other[COUNT];
};

template <typename T, int SOURCE, int ACTIVATION, bool WHOLE, int COUNT>
__device__ static inline void
load_operands(struct operands<T, COUNT> &o, const struct cuda_batch_norm &n,
              const struct cuda_batch_norm_gradient &g, const struct tile &t, int row)
{
    load_rows<WHOLE>(o.x, n.x, t, row);
    load_rows<WHOLE>(o.dy, g.dy, t, row);
    if (SOURCE != SOURCE_GIVEN && ACTIVATION == NO_ACTIVATION)
        load_rows<WHOLE>(o.result, g.result, t, row);
    if (SOURCE == SOURCE_SUM)
        load_rows<WHOLE>(o.other, g.other, t, row);
}

template <typename T, int SOURCE, int ACTIVATION, bool WHOLE>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    sums_kernel(struct cuda_batch_norm n, struct cuda_batch_norm_gradient g)
{
    constexpr int COUNT = sizeof(T) == 2 && SOURCE != SOURCE_SUM ? 2 : 1;
    __shared__ union sum_space space;
    const struct tile t = tile_of<WHOLE>(n, SUM_LANES);
    float value[2][GROUP] = {};
    double sum, product;

    if (t.channel < t.channels) {
        struct operands<T, COUNT> now, next;
        struct group factor = {}, offset = {};

        load_operands<T, SOURCE, ACTIVATION, WHOLE, COUNT>(now, n, g, t, t.first);
        const struct group mean = load_channels<WHOLE>((const float *)n.mean, t);

        if (ACTIVATION != NO_ACTIVATION) {
            factor = norm_factor<WHOLE>(n, t, false);
            offset = norm_offset<WHOLE>(n, t, false, factor);
        }
        for (int row = t.first; row < t.rows; row += COUNT * t.step) {
            load_operands<T, SOURCE, ACTIVATION, WHOLE, COUNT>(next, n, g, t, row + COUNT * t.step);
#pragma unroll
            for (int u = 0; u < COUNT; u++) {
                struct group masked;

                if (row + u * t.step >= t.rows)
                    break;
#pragma unroll
                for (int k = 0; k < GROUP; k++) {
                    float d = to_float(now.dy[u].value[k]), x = to_float(now.x[u].value[k]);

                    if (SOURCE == SOURCE_SUM)
                        d += to_float(now.other[u].value[k]);
                    if (ACTIVATION != NO_ACTIVATION)
                        d = taken_back<ACTIVATION>(d, x * factor.value[k] + offset.value[k]);
                    else if (SOURCE != SOURCE_GIVEN)
                        d = taken_back<ACTIVATION_RELU>(d, to_float(now.result[u].value[k]));
                    if (SOURCE != SOURCE_GIVEN) /* rounded: the second pass reads the stored one */
                        d = to_float(from_float<T>(d));
                    masked.value[k] = d;
                    value[0][k] += d;
                    value[1][k] += d * (x - mean.value[k]);
                }
                if (SOURCE != SOURCE_GIVEN)
                    store_row<WHOLE>((T *)g.masked.at, t, row + u * t.step, masked);
            }
            now = next;
        }
    }
    let_next_launch_begin();
    sum_block(&space, value, n.partial + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * SUMS);
    if (!arrives_last(&n.arrivals[blockIdx.y], gridDim.x))
        return;
    const int64_t c = (int64_t)blockIdx.y * TILE_CHANNELS + threadIdx.x;
    const bool finishes = threadIdx.x < TILE_CHANNELS && c < n.channels;
    const float inverse_std = finishes ? n.inverse_std[c] : 0;
    const float dweight = finishes && g.accumulate ? g.dweight[c] : 0;
    const float dbias = finishes && g.accumulate ? g.dbias[c] : 0;

    sum_tile<WHOLE>(&space, n.partial, &sum, &product);
    if (!finishes)
        return;
    product *= inverse_std;
    g.dweight[c] = dweight + (float)product;
    g.dbias[c] = dbias + (float)sum;
    n.means[c] = (float)(sum * n.inverse_rows);
    n.means[n.channels + c] = (float)(product * n.inverse_rows);
}

/* dx = weight inverse_std (d - mean(d) - x^ mean(d x^)), where x^ is the normalised x, and d the
 * gradient with respect to the result. dx may overwrite dy. `fresh`: the launch before this one
 * wrote dy. */
template <typename T, int ACTIVATION, bool WHOLE>
__global__ void __launch_bounds__(APPLY_THREADS, GRADIENT_BLOCKS)
    gradient_kernel(struct cuda_batch_norm n, struct cuda_array dy, struct cuda_array dx,
                    bool fresh)
{
    constexpr int COUNT = sizeof(T) == 2 ? 2 : 1;
    const struct tile t = tile_of<WHOLE>(n, APPLY_LANES);
    union packed<T> x[COUNT], d[COUNT];
    struct group factor, offset = {}, mean, by_one, by_x;

    if (t.channel >= t.channels)
        return;
    load_rows<WHOLE>(x, n.x, t, t.first);
    if (!fresh)
        load_rows<WHOLE>(d, dy, t, t.first);
    wait_for_launch_before();
    if (fresh)
        load_rows<WHOLE>(d, dy, t, t.first);
    factor = norm_factor<WHOLE>(n, t, false);
    if (ACTIVATION != NO_ACTIVATION)
        offset = norm_offset<WHOLE>(n, t, false, factor);
    mean = load_channels<WHOLE>((const float *)n.mean, t);
    by_one = load_channels<WHOLE>((const float *)n.means, t);
    by_x = load_channels<WHOLE>((const float *)n.means + n.channels, t);
    {
        const struct group inverse_std = load_channels<WHOLE>((const float *)n.inverse_std, t);

#pragma unroll
        for (int k = 0; k < GROUP; k++)
            by_x.value[k] *= inverse_std.value[k];
    }
    for (int row = t.first; row < t.rows; row += COUNT * t.step) {
        if (row > t.first) {
            load_rows<WHOLE>(x, n.x, t, row);
            load_rows<WHOLE>(d, dy, t, row);
        }
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            struct group result;

            if (row + u * t.step >= t.rows)
                break;
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                float v = to_float(x[u].value[k]);
                float by_y = taken_back<ACTIVATION>(to_float(d[u].value[k]),
                                                    v * factor.value[k] + offset.value[k]);

                result.value[k] = factor.value[k] *
                                  (by_y - by_one.value[k] - (v - mean.value[k]) * by_x.value[k]);
            }
            store_row<WHOLE>((T *)dx.at, t, row + u * t.step, result);
        }
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static int64_t tiles_of(const struct cuda_batch_norm *n)
{
    return (n->channels + TILE_CHANNELS - 1) / TILE_CHANNELS;
}

/* The grid: blocks side by side for the tiles, and `blocks` in total if there are enough rows. */
static dim3 grid_of(const struct cuda_batch_norm *n, int64_t blocks, int64_t rows_of_block)
{
    const int64_t tiles = tiles_of(n), useful = (n->rows + rows_of_block - 1) / rows_of_block;
    int64_t wanted = blocks / tiles;

    wanted = wanted < 1 ? 1 : wanted;
    return dim3((unsigned)(wanted < useful ? wanted : useful), (unsigned)tiles);
}

static dim3 sum_grid(const struct cuda_batch_norm *n)
{
    return grid_of(n, n->multiprocessors, SUM_LANES);
}

bool cuda_batch_norm_is_fast(const struct cuda_batch_norm *n)
{
    return n->pixels == 1 && tiles_of(n) <= CUDA_ARRIVALS && n->rows <= ROWS_MAX;
}

size_t cuda_batch_norm_scratch(const struct cuda_batch_norm *n)
{
    const dim3 grid = sum_grid(n);

    return ((size_t)grid.x * grid.y * SUMS + 2 * (size_t)n->channels) * sizeof(float);
}

/* Adds what the kernels need to the caller's description. */
static struct cuda_batch_norm prepared(const struct cuda_batch_norm *norm)
{
    const dim3 grid = sum_grid(norm);
    struct cuda_batch_norm n = *norm;

    n.means = n.partial + (size_t)grid.x * grid.y * SUMS;
    n.inverse_rows = 1.0 / (double)n.rows;
    n.inverse_freedom = 1.0 / (double)(n.rows - 1);
    return n;
}

/* Whether the kernel waits for the launch before: code for older devices, translated for this one,
 * does not. */
static bool waits(const void *kernel)
{
    struct cudaFuncAttributes attributes;

    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

/* Launches a kernel that begins while the one before it ends, if the device supports that. `blocks`
 * blocks fit on a multiprocessor. */
template <typename... Parameters, typename... Arguments>
static cudaError_t launch_behind(const struct cuda_batch_norm *n, void (*kernel)(Parameters...),
                                 int blocks, cudaStream_t stream, Arguments... arguments)
{
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};

    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid_of(n, (int64_t)n->multiprocessors * blocks, APPLY_LANES);
    config.blockDim = dim3(APPLY_THREADS);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = n->overlaps && waits((const void *)kernel) ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

#define FOR_TYPE(n, LAUNCH)                    \
    switch ((n)->x.type) {                     \
    case TENSOR_BFLOAT16:                      \
        FOR_CHANNELS(__nv_bfloat16, n, LAUNCH) \
        break;                                 \
    case TENSOR_FLOAT16:                       \
        FOR_CHANNELS(__half, n, LAUNCH)        \
        break;                                 \
    default:                                   \
        FOR_CHANNELS(float, n, LAUNCH)         \
    }
#define FOR_CHANNELS(T, n, LAUNCH)  \
    if ((n)->channels % GROUP == 0) \
        LAUNCH(T, true);            \
    else                            \
        LAUNCH(T, false);

static bool has_one_type(const struct cuda_batch_norm *n)
{
    return n->x.type == n->y.type && (!n->addend.at || n->addend.type == n->x.type);
}

template <typename T, bool TWO, bool WHOLE>
static decltype(&apply_kernel<T, NO_ACTIVATION, TWO, WHOLE>) apply_of(int activation)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return apply_kernel<T, ACTIVATION_RELU, TWO, WHOLE>;
    case ACTIVATION_SILU:
        return apply_kernel<T, ACTIVATION_SILU, TWO, WHOLE>;
    case ACTIVATION_HARDSWISH:
        return apply_kernel<T, ACTIVATION_HARDSWISH, TWO, WHOLE>;
    case ACTIVATION_GELU:
        return apply_kernel<T, ACTIVATION_GELU, TWO, WHOLE>;
    default:
        return apply_kernel<T, NO_ACTIVATION, TWO, WHOLE>;
    }
}

static cudaError_t apply(const struct cuda_batch_norm *n, bool running, cudaStream_t stream){
#define LAUNCH(T, WHOLE)                                                              \
    return launch_behind(n,                                                           \
                         n->second.weight ? apply_of<T, true, WHOLE>(n->activation)   \
                                          : apply_of<T, false, WHOLE>(n->activation), \
                         APPLY_BLOCKS, stream, *n, running)
    FOR_TYPE(n, LAUNCH)
#undef LAUNCH
}

cudaError_t
    cuda_batch_norm_apply(const struct cuda_batch_norm *norm, bool running, cudaStream_t stream)
{
    struct cuda_batch_norm n = prepared(norm);

    if (!cuda_batch_norm_is_fast(norm) || !has_one_type(norm))
        return norm_general_apply(norm, running, stream);
    n.overlaps = false; /* it does not know which launch wrote its operands */
    return apply(&n, running, stream);
}

cudaError_t cuda_batch_norm_moments(const struct cuda_batch_norm *norm, cudaStream_t stream)
{
    const struct cuda_batch_norm n = prepared(norm);

#define LAUNCH(T, WHOLE) moments_kernel<T, WHOLE><<<sum_grid(&n), SUM_THREADS, 0, stream>>>(n)
    FOR_TYPE(&n, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_batch_norm_train(const struct cuda_batch_norm *norm, cudaStream_t stream)
{
    const struct cuda_batch_norm n = prepared(norm);
    cudaError_t status;

    if (!cuda_batch_norm_is_fast(norm) || !has_one_type(norm))
        return norm_general_train(norm, stream);
    if (norm->whole)
        return norm_whole_train(&n, stream);
    status = cuda_batch_norm_moments(norm, stream);
    return status == cudaSuccess ? apply(&n, false, stream) : status;
}

template <typename T, int SOURCE, int ACTIVATION, bool WHOLE>
static cudaError_t backward(const struct cuda_batch_norm *n,
                            const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    const bool fresh = SOURCE != SOURCE_GIVEN;

    sums_kernel<T, SOURCE, ACTIVATION, WHOLE><<<sum_grid(n), SUM_THREADS, 0, stream>>>(*n, *g);
    return launch_behind(n, gradient_kernel < T, fresh ? NO_ACTIVATION : ACTIVATION, WHOLE >,
                         GRADIENT_BLOCKS, stream, *n, fresh ? g->masked : g->dy, g->dx, fresh);
}

template <typename T, bool WHOLE>
static cudaError_t backward_of(const struct cuda_batch_norm *n,
                               const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    if (g->result.at && g->other.at)
        return backward<T, SOURCE_SUM, NO_ACTIVATION, WHOLE>(n, g, stream);
    if (g->result.at)
        return backward<T, SOURCE_MASKED, NO_ACTIVATION, WHOLE>(n, g, stream);
    if (g->other.at)
        return backward<T, SOURCE_SUM, ACTIVATION_RELU, WHOLE>(n, g, stream);
    switch (n->activation) {
    case ACTIVATION_RELU:
        return backward<T, SOURCE_GIVEN, ACTIVATION_RELU, WHOLE>(n, g, stream);
    case ACTIVATION_SILU:
        return backward<T, SOURCE_GIVEN, ACTIVATION_SILU, WHOLE>(n, g, stream);
    case ACTIVATION_HARDSWISH:
        return backward<T, SOURCE_GIVEN, ACTIVATION_HARDSWISH, WHOLE>(n, g, stream);
    case ACTIVATION_GELU:
        return backward<T, SOURCE_GIVEN, ACTIVATION_GELU, WHOLE>(n, g, stream);
    default:
        return backward<T, SOURCE_GIVEN, NO_ACTIVATION, WHOLE>(n, g, stream);
    }
}

cudaError_t cuda_batch_norm_backward(const struct cuda_batch_norm *norm,
                                     const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    const struct cuda_batch_norm n = prepared(norm);

    if (!cuda_batch_norm_is_fast(norm) || g->dy.type != norm->x.type || g->dx.type != norm->x.type)
        return norm_general_backward(norm, g, stream);
    if (norm->whole)
        return norm_whole_backward(&n, g, stream);
#define LAUNCH(T, WHOLE) return backward_of<T, WHOLE>(&n, g, stream)
    FOR_TYPE(&n, LAUNCH)
#undef LAUNCH
}
