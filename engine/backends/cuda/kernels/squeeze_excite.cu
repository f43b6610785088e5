/* squeeze_excite.cu: see squeeze_excite.h. A block has an image. Its threads add up the pixels,
 * multiply the averages, which lie in shared memory, by both layers' weights, and go through the
 * pixels once more. Sums have a fixed order, and what is stored is rounded before it is used. */
#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/squeeze_excite.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int THREADS_MAX = 1024;
constexpr int LANES = 32;            /* threads of a warp */
constexpr size_t SHARED_MAX = 49152; /* bytes that a block has without asking */
/* numbers of an image: the threads count in 32 bits, some steps beyond its end */
constexpr int64_t IMAGE_MAX = 1 << 30;

/* ---- a block's sums -------------------------------------------------------------------------- */

/* Adds up what `lanes` threads have for each of `width` places: thread lane width + place. `part`
 * has WIDTH times the block's threads. The sums of a place are its first thread's. */
template <int WIDTH> __device__ static inline void add_lanes(float *part, int width, int lanes)
{
    const int thread = (int)threadIdx.x, lane = thread / width, threads = (int)blockDim.x;

    __syncthreads();
    for (int count = lanes; count > 1;) {
        const int half = (count + 1) / 2;

        if (lane + half < count)
            for (int k = 0; k < WIDTH; k++)
                part[k * threads + thread] += part[k * threads + thread + half * width];
        __syncthreads();
        count = half;
    }
}

/* store(channel, sum) gets the sums over the pixels of x, or with SCALED of x dy, from element
 * `first` on. */
template <int WIDTH, bool SCALED, typename T, typename Store>
__device__ static inline void sum_pixels(const struct typed_array<T> &x,
                                         const struct typed_array<T> &dy, int64_t first, int pixels,
                                         int channels, float *part, Store store)
{
    /* loads that a thread has under way, as many as there are registers for */
    constexpr int AHEAD = SCALED && WIDTH > 1 ? 2 : 4;
    const int strips = channels / WIDTH, threads = (int)blockDim.x, thread = (int)threadIdx.x;
    const int width = strips < threads ? strips : threads, lanes = threads / width;
    const int lane = thread / width;

    for (int base = 0; base < strips; base += width) {
        const int strip = base + thread % width;
        const bool works = lane < lanes && strip < strips;
        const int64_t from = first + (int64_t)strip * WIDTH;
        float sum[WIDTH] = {};

        for (int p = lane; p < pixels && works; p += AHEAD * lanes) {
            float v[AHEAD][WIDTH], d[AHEAD][WIDTH];

            /* beyond the end, the last pixel: without branches all reads are under way at once */
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const int64_t at = from + (int64_t)min(p + i * lanes, pixels - 1) * channels;

                load(x, at, v[i]);
                if (SCALED)
                    load(dy, at, d[i]);
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                for (int k = 0; k < WIDTH && p + i * lanes < pixels; k++)
                    sum[k] += SCALED ? v[i][k] * d[i][k] : v[i][k];
        }
        for (int k = 0; k < WIDTH; k++)
            part[k * threads + thread] = sum[k];
        add_lanes<WIDTH>(part, width, lanes);
        for (int k = 0; k < WIDTH && works && lane == 0; k++)
            store(strip * WIDTH + k, part[k * threads + thread]);
        __syncthreads();
    }
}

/* store(row, sum) gets the products of the matrix' rows and the vector. The lanes of a row are
 * adjacent. */
template <typename W, typename Store>
__device__ static inline void multiply_rows(const W *matrix, const float *vector, int rows,
                                            int columns, Store store)
{
    int lanes = LANES;

    while (lanes > 1 && lanes / 2 >= columns)
        lanes /= 2;
    const int lane = (int)threadIdx.x % lanes, step = (int)blockDim.x / lanes;

    for (int base = 0; base < rows; base += step) {
        const int row = base + (int)threadIdx.x / lanes;
        float sum = 0.0f;

        for (int c = lane; c < columns && row < rows; c += lanes)
            sum += vector[c] * to_float(matrix[(int64_t)row * columns + c]);
        for (int distance = lanes / 2; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        if (row < rows && lane == 0)
            store(row, sum);
    }
    __syncthreads();
}

/* store(column, sum) gets the products of the matrix' columns and the vector. */
template <typename W, typename Store>
__device__ static inline void multiply_columns(const W *matrix, const float *vector, int rows,
                                               int columns, float *part, Store store)
{
    const int threads = (int)blockDim.x, thread = (int)threadIdx.x;
    const int width = columns < threads ? columns : threads, lanes = threads / width;
    const int lane = thread / width;

    for (int base = 0; base < columns; base += width) {
        const int column = base + thread % width;
        const bool works = lane < lanes && column < columns;
        float sum = 0.0f;

        for (int r = lane; r < rows && works; r += lanes)
            sum += vector[r] * to_float(matrix[(int64_t)r * columns + column]);
        part[thread] = sum;
        add_lanes<1>(part, width, lanes);
        if (works && lane == 0)
            store(column, part[thread]);
        __syncthreads();
    }
}

/* ---- both launches --------------------------------------------------------------------------- */

/* The block's shared memory: a number for each channel, one for each squeezed number, and WIDTH
 * for each thread. */
struct shared_parts {
    float *channel, *squeezed, *part;
};

__device__ static inline struct shared_parts divide_shared(float *shared, int channels,
                                                           int squeezed)
{
    return {shared, shared + channels, shared + channels + squeezed};
}

static size_t shared_bytes(const struct cuda_squeeze_excite *s)
{
    const int64_t width = s->channels % GROUP == 0 ? GROUP : 1;

    return (size_t)(s->channels + s->squeezed + width * s->threads) * sizeof(float);
}

bool cuda_squeeze_excite_fits(const struct cuda_squeeze_excite *s)
{
    const bool whole_warps =
        s->threads >= LANES && s->threads <= THREADS_MAX && (s->threads & (s->threads - 1)) == 0;

    return whole_warps && shared_bytes(s) <= SHARED_MAX && s->pixels * s->channels <= IMAGE_MAX &&
           s->images <= INT32_MAX;
}

__device__ static inline float bias_of(const float *bias, int i)
{
    return bias ? bias[i] : 0.0f;
}

__device__ static inline void store_if(const struct cuda_array &to, int64_t at, float value)
{
    if (to.at)
        array_store(to, at, value);
}

template <typename T, typename W, int WIDTH>
__global__ void __launch_bounds__(THREADS_MAX)
    squeeze_excite_kernel(struct cuda_squeeze_excite s, const float *reduce_bias,
                          const float *expand_bias, struct cuda_squeeze_excite_results r)
{
    extern __shared__ float shared[];
    const int channels = (int)s.channels, squeezed = (int)s.squeezed, pixels = (int)s.pixels;
    const struct shared_parts at = divide_shared(shared, channels, squeezed);
    const struct typed_array<T> x = {(T *)s.x.at}, y = {
        (T *)r.y.at
    };
    const int64_t image = blockIdx.x, first = image * pixels * channels;
    const int type = s.x.type, strips = channels / WIDTH;
    const float factor = 1.0f / (float)pixels;

    sum_pixels<WIDTH, false>(x, x, first, pixels, channels, at.part, [&](int c, float sum) {
        at.channel[c] = rounded_to(type, sum * factor);
        store_if(r.averages, image * channels + c, at.channel[c]);
    });
    multiply_rows((const W *)s.reduce.at, at.channel, squeezed, channels, [&](int i, float sum) {
        const float reduced = rounded_to(type, sum + bias_of(reduce_bias, i));

        at.squeezed[i] = rounded_to(type, activate_any(s.activation, reduced));
        store_if(r.reduced, image * squeezed + i, reduced);
        store_if(r.hidden, image * squeezed + i, at.squeezed[i]);
    });
    multiply_rows((const W *)s.expand.at, at.squeezed, channels, squeezed, [&](int c, float sum) {
        const float expanded = rounded_to(type, sum + bias_of(expand_bias, c));

        at.channel[c] = rounded_to(type, activate_any(s.gate, expanded));
        store_if(r.expanded, image * channels + c, expanded);
        store_if(r.factors, image * channels + c, at.channel[c]);
    });
    for (int i = (int)threadIdx.x; i < pixels * strips; i += (int)blockDim.x) {
        const float *by = at.channel + i % strips * WIDTH;
        float value[WIDTH];

        load(x, first + (int64_t)i * WIDTH, value);
        for (int k = 0; k < WIDTH; k++)
            value[k] *= by[k];
        store(y, first + (int64_t)i * WIDTH, value);
    }
}

template <typename T, typename W, int WIDTH>
__global__ void __launch_bounds__(THREADS_MAX)
    squeeze_excite_backward_kernel(struct cuda_squeeze_excite s,
                                   struct cuda_squeeze_excite_gradient g)
{
    extern __shared__ float shared[];
    const int channels = (int)s.channels, squeezed = (int)s.squeezed, pixels = (int)s.pixels;
    const struct shared_parts at = divide_shared(shared, channels, squeezed);
    const struct typed_array<T> x = {(T *)s.x.at}, dy = {(T *)g.dy.at}, dx = {
        (T *)g.dx.at
    };
    const struct typed_array<T> factors = {
        (T *)g.factors.at
    };
    const int64_t image = blockIdx.x, first = image * pixels * channels;
    const int type = s.x.type, strips = channels / WIDTH;
    const float factor = 1.0f / (float)pixels;

    sum_pixels<WIDTH, true>(x, dy, first, pixels, channels, at.part, [&](int c, float sum) {
        const int64_t i = image * channels + c;

        at.channel[c] =
            rounded_to(type, activate_backward_any(s.gate, sum, array_load(g.gate_saved, i)));
        store_if(g.dexpanded, i, at.channel[c]);
    });
    multiply_columns(
        (const W *)s.expand.at, at.channel, channels, squeezed, at.part, [&](int i, float sum) {
            const int64_t j = image * squeezed + i;

            at.squeezed[i] = rounded_to(
                type, activate_backward_any(s.activation, sum, array_load(g.activation_saved, j)));
            store_if(g.dreduced, j, at.squeezed[i]);
        });
    multiply_columns((const W *)s.reduce.at, at.squeezed, squeezed, channels, at.part,
                     [&](int c, float sum) { at.channel[c] = rounded_to(type, sum) * factor; });
    for (int i = (int)threadIdx.x; i < pixels * strips; i += (int)blockDim.x) {
        const int channel = i % strips * WIDTH;
        float value[WIDTH], by[WIDTH];

        load(dy, first + (int64_t)i * WIDTH, value);
        load(factors, image * channels + channel, by);
        for (int k = 0; k < WIDTH; k++)
            value[k] = value[k] * by[k] + at.channel[channel + k];
        store(dx, first + (int64_t)i * WIDTH, value);
    }
}

/* Launches LAUNCH(T, W, WIDTH) for the type of the images and that of the weights. */
#define FOR_TYPES(s, LAUNCH)                                      \
    {                                                             \
        const bool wide = (s)->reduce.type == TENSOR_FLOAT32;     \
        if ((s)->x.type == TENSOR_BFLOAT16 && wide)               \
            FOR_CHANNELS(s, LAUNCH, __nv_bfloat16, float)         \
        else if ((s)->x.type == TENSOR_BFLOAT16)                  \
            FOR_CHANNELS(s, LAUNCH, __nv_bfloat16, __nv_bfloat16) \
        else if ((s)->x.type == TENSOR_FLOAT16 && wide)           \
            FOR_CHANNELS(s, LAUNCH, __half, float)                \
        else if ((s)->x.type == TENSOR_FLOAT16)                   \
            FOR_CHANNELS(s, LAUNCH, __half, __half)               \
        else                                                      \
            FOR_CHANNELS(s, LAUNCH, float, float)                 \
    }
#define FOR_CHANNELS(s, LAUNCH, T, W)   \
    {                                   \
        if ((s)->channels % GROUP == 0) \
            LAUNCH(T, W, GROUP);        \
        else                            \
            LAUNCH(T, W, 1);            \
    }

cudaError_t cuda_squeeze_excite(const struct cuda_squeeze_excite *s, const float *reduce_bias,
                                const float *expand_bias,
                                const struct cuda_squeeze_excite_results *results,
                                cudaStream_t stream)
{
#define LAUNCH(T, W, WIDTH)                                                       \
    squeeze_excite_kernel<T, W, WIDTH>                                            \
        <<<(unsigned)s->images, (unsigned)s->threads, shared_bytes(s), stream>>>( \
            *s, reduce_bias, expand_bias, *results)
    FOR_TYPES(s, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_squeeze_excite_backward(const struct cuda_squeeze_excite *s,
                                         const struct cuda_squeeze_excite_gradient *gradient,
                                         cudaStream_t stream)
{
#define LAUNCH(T, W, WIDTH)                     \
    squeeze_excite_backward_kernel<T, W, WIDTH> \
        <<<(unsigned)s->images, (unsigned)s->threads, shared_bytes(s), stream>>>(*s, *gradient)
    FOR_TYPES(s, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}
