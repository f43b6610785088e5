/* images.cu: pools and channel scales of channels-last images. A thread has eight channels of a
 * pixel, or four, two or one if eight does not divide their number. Gradients are gathered, pixel
 * by pixel and window after window. If windows do not overlap, each window writes its pixels
 * instead. So no two threads add to the same number. Indices have 32 bits if that is enough:
 * divisions of 64 bits take longer than the memory accesses. */
#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

/* Adjacent bytes. */
template <int WIDTH> struct alignas(WIDTH) places {
    uint8_t value[WIDTH];
};

#define FOR_EACH_INDEX(i, count)                                              \
    for (Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x; i < (count); \
         i += (Index)gridDim.x * blockDim.x)

/* Launches `count` threads, with WIDTH channels each, and indices that are wide enough. */
#define FOR_WIDTH(channels, count, LAUNCH)   \
    if ((count) > INT32_MAX / 2)             \
        FOR_INDEX(channels, int64_t, LAUNCH) \
    else                                     \
        FOR_INDEX(channels, int, LAUNCH)
#define FOR_INDEX(channels, Index, LAUNCH) \
    {                                      \
        if ((channels) % GROUP == 0)       \
            LAUNCH(GROUP, Index);          \
        else if ((channels) % 4 == 0)      \
            LAUNCH(4, Index);              \
        else if ((channels) % 2 == 0)      \
            LAUNCH(2, Index);              \
        else                               \
            LAUNCH(1, Index);              \
    }

/* ---- pools ----------------------------------------------------------------------------------- */

/* What a thread has: the channels from `channel` on of a pixel (row, column) of an image. */
template <typename Index> struct pixel {
    Index image, row, column, channel;
};

template <int WIDTH, typename Index>
__device__ static inline struct pixel<Index> pixel_at(Index i, Index height, Index width,
                                                      Index channels) {
    const Index strips = channels / WIDTH, place = i / strips, line = place / width;

    return {line / height, line % height, place % width, (i - place * strips) * WIDTH};
}

/* Along one axis, the windows that contain a pixel, or the pixels of a window: [first, end). */
struct span {
    int first, end;
};

__device__ static inline struct span pixels_of(const struct cuda_pool &p, int axis, int out,
                                               int extent)
{
    const int start = out * p.stride[axis] - p.padding[axis];
    const int end = start + p.kernel[axis];

    return {start < 0 ? 0 : start, end > extent ? extent : end};
}

__device__ static inline struct span windows_of(const struct cuda_pool &p, int axis, int pixel,
                                                int windows)
{
    const int place = pixel + p.padding[axis], before = place - p.kernel[axis];
    const int end = place / p.stride[axis] + 1;

    return {before < 0 ? 0 : before / p.stride[axis] + 1, end > windows ? windows : end};
}

/* Makes means of the sums of a window, or rectifies its maxima. */
template <int WIDTH, bool MAXIMUM>
__device__ static inline void finish_window(const struct cuda_pool &p, int channel,
                                            float (&best)[WIDTH], struct places<WIDTH> &where)
{
    for (int k = 0; k < WIDTH && !MAXIMUM; k++)
        best[k] /= (float)(p.kernel[0] * p.kernel[1]);
    for (int k = 0; k < WIDTH && MAXIMUM && p.rectified; k++) {
        const float z = best[k] + (p.bias ? p.bias[channel + k] : 0.0f);

        best[k] = z < 0.0f ? 0.0f : z;
        if (!(z > 0.0f))
            where.value[k] = CUDA_POOL_NOWHERE;
    }
}

template <int WIDTH, bool MAXIMUM, typename Index>
__global__ void pool_kernel(struct cuda_pool p, struct cuda_array x, struct cuda_array y,
                            uint8_t *position, Index count)
{
    FOR_EACH_INDEX(i, count)
    {
        const struct pixel<Index> out =
            pixel_at<WIDTH, Index>(i, (Index)p.out_height, (Index)p.out_width, (Index)p.channels);
        const struct span rows = pixels_of(p, 0, (int)out.row, (int)p.height);
        const struct span columns = pixels_of(p, 1, (int)out.column, (int)p.width);
        const int start = (int)out.row * p.stride[0] - p.padding[0];
        const int left = (int)out.column * p.stride[1] - p.padding[1];
        float best[WIDTH], value[WIDTH];
        struct places<WIDTH> where = {
        };

        for (int k = 0; k < WIDTH; k++)
            best[k] = MAXIMUM ? -INFINITY : 0.0f;
        for (int h = rows.first; h < rows.end; h++)
            for (int w = columns.first; w < columns.end; w++) {
                load(x, ((out.image * p.height + h) * p.width + w) * p.channels + out.channel,
                     value);
                for (int k = 0; k < WIDTH; k++) {
                    if (!MAXIMUM) {
                        best[k] += value[k];
                    } else if (!(value[k] <= best[k])) { /* a NaN wins, as in PyTorch */
                        best[k] = value[k];
                        where.value[k] = (uint8_t)((h - start) * p.kernel[1] + w - left);
                    }
                }
            }
        finish_window<WIDTH, MAXIMUM>(p, (int)out.channel, best, where);
        store(y, (int64_t)i * WIDTH, best);
        if (MAXIMUM && position)
            *(struct places<WIDTH> *)(position + (int64_t)i * WIDTH) = where;
    }
}

/* Windows of 2x2 pixels, all of which exist, and arrays of one type: the four reads are under way
 * at once. */
template <int WIDTH, bool MAXIMUM, typename T, typename Index>
__global__ void pool_square_kernel(struct cuda_pool p, struct typed_array<T> x,
                                   struct typed_array<T> y, uint8_t *position, Index count)
{
    FOR_EACH_INDEX(i, count)
    {
        const struct pixel<Index> out =
            pixel_at<WIDTH, Index>(i, (Index)p.out_height, (Index)p.out_width, (Index)p.channels);
        const Index row = out.image * (Index)p.height + out.row * p.stride[0];
        const Index first = (row * (Index)p.width + out.column * p.stride[1]) * (Index)p.channels;
        float read[4][WIDTH], best[WIDTH];
        struct places<WIDTH> where = {
        };

#pragma unroll
        for (int w = 0; w < 4; w++)
            load(x, first + out.channel + (w / 2 * (Index)p.width + w % 2) * (Index)p.channels,
                 read[w]);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            best[k] = MAXIMUM ? -INFINITY : 0.0f;
#pragma unroll
        for (int w = 0; w < 4; w++)
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                if (!MAXIMUM) {
                    best[k] += read[w][k];
                } else if (!(read[w][k] <= best[k])) { /* a NaN wins, as in PyTorch */
                    best[k] = read[w][k];
                    where.value[k] = (uint8_t)w;
                }
            }
        finish_window<WIDTH, MAXIMUM>(p, (int)out.channel, best, where);
        store(y, (int64_t)i * WIDTH, best);
        if (MAXIMUM && position)
            *(struct places<WIDTH> *)(position + (int64_t)i * WIDTH) = where;
    }
}

template <int WIDTH, bool MAXIMUM, typename Index>
__global__ void pool_backward_kernel(struct cuda_pool p, struct cuda_array dy,
                                     const uint8_t *position, struct cuda_array dx, Index count)
{
    FOR_EACH_INDEX(i, count)
    {
        const struct pixel<Index> in =
            pixel_at<WIDTH, Index>(i, (Index)p.height, (Index)p.width, (Index)p.channels);
        const struct span rows = windows_of(p, 0, (int)in.row, (int)p.out_height);
        const struct span columns = windows_of(p, 1, (int)in.column, (int)p.out_width);
        float sum[WIDTH] = {}, value[WIDTH];

        for (int oh = rows.first; oh < rows.end; oh++)
            for (int ow = columns.first; ow < columns.end; ow++) {
                const int h = (int)in.row - (oh * p.stride[0] - p.padding[0]);
                const int w = (int)in.column - (ow * p.stride[1] - p.padding[1]);
                const int64_t at =
                    ((in.image * p.out_height + oh) * p.out_width + ow) * p.channels + in.channel;
                struct places<WIDTH> where = {
                };

                load(dy, at, value);
                if (MAXIMUM)
                    where = *(const struct places<WIDTH> *)(position + at);
                for (int k = 0; k < WIDTH; k++)
                    if (!MAXIMUM || where.value[k] == h * p.kernel[1] + w)
                        sum[k] += value[k];
            }
        for (int k = 0; k < WIDTH && !MAXIMUM; k++)
            sum[k] /= (float)(p.kernel[0] * p.kernel[1]);
        store(dx, (int64_t)i * WIDTH, sum);
    }
}

/* For windows that do not overlap: each thread has a window's gradient and writes all its pixels,
 * and those at the border for which no whole window is left. */
template <int WIDTH, bool MAXIMUM, typename Index>
__global__ void pool_deal_kernel(struct cuda_pool p, struct cuda_array dy, const uint8_t *position,
                                 struct cuda_array dx, int down, int across, Index count)
{
    FOR_EACH_INDEX(i, count)
    {
        const struct pixel<Index> out =
            pixel_at<WIDTH, Index>(i, (Index)down, (Index)across, (Index)p.channels);
        const bool inside = out.row < p.out_height && out.column < p.out_width;
        const int64_t from =
            ((out.image * p.out_height + out.row) * p.out_width + out.column) * p.channels +
            out.channel;
        float gradient[WIDTH] = {}, value[WIDTH];
        struct places<WIDTH> where = {
        };

        if (inside)
            load(dy, from, gradient);
        if (inside && MAXIMUM)
            where = *(const struct places<WIDTH> *)(position + from);
        for (int k = 0; k < WIDTH && !MAXIMUM; k++)
            gradient[k] /= (float)(p.kernel[0] * p.kernel[1]);
        for (int h = 0; h < p.kernel[0]; h++)
            for (int w = 0; w < p.kernel[1]; w++) {
                const int row = (int)out.row * p.kernel[0] + h;
                const int column = (int)out.column * p.kernel[1] + w;

                if (row >= p.height || column >= p.width)
                    continue;
                for (int k = 0; k < WIDTH; k++)
                    value[k] =
                        !MAXIMUM || where.value[k] == h * p.kernel[1] + w ? gradient[k] : 0.0f;
                store(dx,
                      ((out.image * p.height + row) * p.width + column) * p.channels + out.channel,
                      value);
            }
    }
}

static bool windows_are_side_by_side(const struct cuda_pool *p)
{
    return p->kernel[0] == p->stride[0] && p->kernel[1] == p->stride[1] && p->padding[0] == 0 &&
           p->padding[1] == 0;
}

template <bool MAXIMUM>
static cudaError_t pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                 const uint8_t *position, struct cuda_array dx, cudaStream_t stream)
{
    const int64_t pixels = pool->images * pool->height * pool->width * pool->channels;
    const int down = (int)((pool->height + pool->kernel[0] - 1) / pool->kernel[0]);
    const int across = (int)((pool->width + pool->kernel[1] - 1) / pool->kernel[1]);
    const int64_t windows = pool->images * down * across * pool->channels;

#define DEAL(WIDTH, Index)                                                                      \
    pool_deal_kernel<WIDTH, MAXIMUM, Index><<<blocks_for(windows / WIDTH), BLOCK, 0, stream>>>( \
        *pool, dy, position, dx, down, across, (Index)(windows / WIDTH))
#define GATHER(WIDTH, Index)                                                                       \
    pool_backward_kernel<WIDTH, MAXIMUM, Index><<<blocks_for(pixels / WIDTH), BLOCK, 0, stream>>>( \
        *pool, dy, position, dx, (Index)(pixels / WIDTH))
    if (windows_are_side_by_side(pool))
        FOR_WIDTH(pool->channels, pixels, DEAL)
    else
        FOR_WIDTH(pool->channels, pixels, GATHER)
#undef DEAL
#undef GATHER
    return cudaGetLastError();
}

/* Whether pool_square_kernel() computes it. */
static bool windows_are_squares(const struct cuda_pool *p)
{
    return p->kernel[0] == 2 && p->kernel[1] == 2 && p->padding[0] == 0 && p->padding[1] == 0 &&
           (p->out_height - 1) * p->stride[0] + 2 <= p->height &&
           (p->out_width - 1) * p->stride[1] + 2 <= p->width;
}

template <bool MAXIMUM, typename T>
static void pool_squares(const struct cuda_pool *pool, struct typed_array<T> x,
                         struct typed_array<T> y, uint8_t *position, cudaStream_t stream)
{
    const int64_t count = pool->images * pool->out_height * pool->out_width * pool->channels;
    const int64_t pixels = pool->images * pool->height * pool->width * pool->channels;

#define LAUNCH(WIDTH, Index)                                                                       \
    pool_square_kernel<WIDTH, MAXIMUM, T, Index><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>( \
        *pool, x, y, position, (Index)(count / WIDTH))
    FOR_WIDTH(pool->channels, pixels, LAUNCH)
#undef LAUNCH
}

template <bool MAXIMUM>
static cudaError_t pool_forward(const struct cuda_pool *pool, struct cuda_array x,
                                struct cuda_array y, uint8_t *position, cudaStream_t stream)
{
    const int64_t count = pool->images * pool->out_height * pool->out_width * pool->channels;
    const int64_t pixels = pool->images * pool->height * pool->width * pool->channels;

    if (windows_are_squares(pool) && x.type == y.type) {
        if (x.type == TENSOR_BFLOAT16)
            pool_squares<MAXIMUM>(pool, typed<__nv_bfloat16>(x), typed<__nv_bfloat16>(y), position,
                                  stream);
        else if (x.type == TENSOR_FLOAT16)
            pool_squares<MAXIMUM>(pool, typed<__half>(x), typed<__half>(y), position, stream);
        else
            pool_squares<MAXIMUM>(pool, typed<float>(x), typed<float>(y), position, stream);
        return cudaGetLastError();
    }
#define LAUNCH(WIDTH, Index)                                                             \
    pool_kernel<WIDTH, MAXIMUM, Index><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>( \
        *pool, x, y, position, (Index)(count / WIDTH))
    FOR_WIDTH(pool->channels, pixels, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_max_pool(const struct cuda_pool *pool, struct cuda_array x, struct cuda_array y,
                          uint8_t *position, cudaStream_t stream)
{
    return pool_forward<true>(pool, x, y, position, stream);
}

cudaError_t cuda_max_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                   const uint8_t *position, struct cuda_array dx,
                                   cudaStream_t stream)
{
    return pool_backward<true>(pool, dy, position, dx, stream);
}

/* ---- sums over an image's pixels ------------------------------------------------------------- */

/* Sums of x over the pixels, times `factor`. With `dy`: sums of the products of x and dy; also dx =
 * dy scale if dx has an address. kind >= 0: the derivative of that activation, which saved `saved`,
 * is applied to the sums. */
template <typename Array> struct pixel_sums {
    Array x, dy, scale, dx, sums;
    int pixels;
    int64_t channels, strips;
    float factor;
    int kind;
    struct cuda_array saved;
};

template <typename T>
static struct pixel_sums<struct typed_array<T>>
typed(const struct pixel_sums<struct cuda_array> &s) {
    return {typed<T>(s.x), typed<T>(s.dy), typed<T>(s.scale), typed<T>(s.dx), typed<T>(s.sums),
            s.pixels,      s.channels,     s.strips,          s.factor,       s.kind,
            s.saved};
}

/* A block has BLOCK / LANES strips of channels. LANES threads sum up each strip and take its pixels
 * in turn, AHEAD of them at once. SCALED: with `dy`. */
template <int WIDTH, int LANES, bool SCALED, typename Array>
__global__ void image_sums_kernel(struct pixel_sums<Array> s)
{
    constexpr int STRIPS = BLOCK / LANES, AHEAD = 4;
    __shared__ float shared[WIDTH][BLOCK];
    const int lane = threadIdx.x / STRIPS, pixels = s.pixels;
    const int64_t strip = (int64_t)blockIdx.x * STRIPS + threadIdx.x % STRIPS;
    const int64_t image = strip / (s.channels / WIDTH);
    const int64_t channel = (strip - image * (s.channels / WIDTH)) * WIDTH;
    const int64_t first = image * pixels * s.channels + channel;
    float by[WIDTH] = {}, sum[WIDTH] = {};

    if (SCALED && strip < s.strips && s.dx.at)
        load(s.scale, image * s.channels + channel, by);
    for (int p = lane; p < pixels && strip < s.strips; p += AHEAD * LANES) {
        float v[AHEAD][WIDTH], d[AHEAD][WIDTH];

        /* beyond the end, the last pixel once more: without branches all reads are under way at
         * once */
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t at = first + min(p + i * LANES, pixels - 1) * s.channels;

            load(s.x, at, v[i]);
            if (SCALED)
                load(s.dy, at, d[i]);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (p + i * LANES >= pixels)
                continue;
            for (int k = 0; k < WIDTH; k++)
                sum[k] += SCALED ? v[i][k] * d[i][k] : v[i][k];
            if (SCALED && s.dx.at) {
                for (int k = 0; k < WIDTH; k++)
                    d[i][k] *= by[k];
                store(s.dx, first + (p + i * LANES) * s.channels, d[i]);
            }
        }
    }
    for (int k = 0; k < WIDTH; k++)
        shared[k][threadIdx.x] = sum[k];
    __syncthreads();
    if (lane > 0 || strip >= s.strips)
        return;
    for (int other = 1; other < LANES; other++)
        for (int k = 0; k < WIDTH; k++)
            sum[k] += shared[k][other * STRIPS + threadIdx.x];
    for (int k = 0; k < WIDTH; k++)
        sum[k] *= s.factor;
    if (SCALED && s.kind >= 0) {
        float saved[WIDTH];

        load(s.saved, strip * WIDTH, saved);
        for (int k = 0; k < WIDTH; k++)
            sum[k] = activate_backward_any(s.kind, sum[k], saved[k]);
    }
    store(s.sums, strip * WIDTH, sum);
}

template <bool SCALED, int WIDTH, typename Array>
static void launch_sums(const struct pixel_sums<Array> &s, cudaStream_t stream)
{
    const auto blocks = [&](int lanes) {
        const int64_t strips = BLOCK / lanes;

        return (unsigned)((s.strips + strips - 1) / strips);
    };

    if (s.pixels > 128)
        image_sums_kernel<WIDTH, 32, SCALED><<<blocks(32), BLOCK, 0, stream>>>(s);
    else if (s.pixels > 8)
        image_sums_kernel<WIDTH, 8, SCALED><<<blocks(8), BLOCK, 0, stream>>>(s);
    else
        image_sums_kernel<WIDTH, 1, SCALED><<<blocks(1), BLOCK, 0, stream>>>(s);
}

template <bool SCALED, int WIDTH>
static void launch_typed_sums(const struct pixel_sums<struct cuda_array> &s, cudaStream_t stream)
{
    if (!are_all(s.x.type, s.dy, s.scale, s.dx, s.sums))
        launch_sums<SCALED, WIDTH>(s, stream);
    else if (s.x.type == TENSOR_BFLOAT16)
        launch_sums<SCALED, WIDTH>(typed<__nv_bfloat16>(s), stream);
    else if (s.x.type == TENSOR_FLOAT16)
        launch_sums<SCALED, WIDTH>(typed<__half>(s), stream);
    else
        launch_sums<SCALED, WIDTH>(typed<float>(s), stream);
}

/* Sets the number of strips. */
template <bool SCALED>
static cudaError_t image_sums(struct pixel_sums<struct cuda_array> s, int64_t images,
                              cudaStream_t stream)
{
    if (s.channels % GROUP == 0) {
        s.strips = images * s.channels / GROUP;
        launch_typed_sums<SCALED, GROUP>(s, stream);
    } else {
        s.strips = images * s.channels;
        launch_typed_sums<SCALED, 1>(s, stream);
    }
    return cudaGetLastError();
}

/* dx = dy scale + pooled factor, for an image's channels; dy at NULL: without the first term. */
template <int WIDTH, typename Index>
__global__ void image_spread_kernel(struct cuda_array dy, struct cuda_array scale,
                                    struct cuda_array pooled, struct cuda_array dx, Index pixels,
                                    Index channels, float factor, Index count)
{
    FOR_EACH_INDEX(i, count)
    {
        const Index strips = channels / WIDTH, place = i / strips;
        const int64_t at = (int64_t)(place / pixels) * channels + (i - place * strips) * WIDTH;
        float value[WIDTH], by[WIDTH], d[WIDTH];

        load(pooled, at, value);
        for (int k = 0; k < WIDTH; k++)
            value[k] *= factor;
        if (dy.at) {
            load(dy, (int64_t)i * WIDTH, d);
            load(scale, at, by);
            for (int k = 0; k < WIDTH; k++)
                value[k] += d[k] * by[k];
        }
        store(dx, (int64_t)i * WIDTH, value);
    }
}

cudaError_t cuda_channel_scale_gradient(struct cuda_array dy, struct cuda_array scale,
                                        struct cuda_array pooled, struct cuda_array dx,
                                        int64_t images, int64_t pixels, int64_t channels,
                                        cudaStream_t stream)
{
    const int64_t count = images * pixels * channels;
    const float factor = 1.0f / (float)pixels;

#define LAUNCH(WIDTH, Index)                                                            \
    image_spread_kernel<WIDTH, Index><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>( \
        dy, scale, pooled, dx, (Index)pixels, (Index)channels, factor, (Index)(count / WIDTH))
    FOR_WIDTH(channels, count, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

/* Whether the pool is the mean of all pixels. */
static bool is_global(const struct cuda_pool *p)
{
    return p->kernel[0] == p->height && p->kernel[1] == p->width && p->out_height == 1 &&
           p->out_width == 1 && p->padding[0] == 0 && p->padding[1] == 0;
}

cudaError_t cuda_average_pool(const struct cuda_pool *pool, struct cuda_array x,
                              struct cuda_array y, cudaStream_t stream)
{
    const int64_t pixels = pool->height * pool->width;
    struct pixel_sums<struct cuda_array> sums = {
    };

    sums.x = x;
    sums.sums = y;
    sums.pixels = (int)pixels;
    sums.channels = pool->channels;
    sums.factor = 1.0f / (float)pixels;
    if (is_global(pool))
        return image_sums<false>(sums, pool->images, stream);
    return pool_forward<false>(pool, x, y, NULL, stream);
}

cudaError_t cuda_average_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                       struct cuda_array dx, cudaStream_t stream)
{
    const struct cuda_array none = {};

    if (is_global(pool))
        return cuda_channel_scale_gradient(none, none, dy, dx, pool->images,
                                           pool->height * pool->width, pool->channels, stream);
    return pool_backward<false>(pool, dy, NULL, dx, stream);
}

/* ---- channel scale --------------------------------------------------------------------------- */

/* The thread of an image's first pixel stores what the gate makes of the scale. */
template <int WIDTH, typename Index>
__global__ void scale_kernel(struct cuda_array x, struct cuda_array scale, struct cuda_gate gate,
                             struct cuda_array y, Index pixels, Index channels, Index count)
{
    FOR_EACH_INDEX(i, count)
    {
        const Index strips = channels / WIDTH, place = i / strips, image = place / pixels;
        const int64_t at = (int64_t)image * channels + (i - place * strips) * WIDTH;
        float value[WIDTH], by[WIDTH];

        load(x, (int64_t)i * WIDTH, value);
        load(scale, at, by);
        if (gate.kind >= 0) {
            for (int k = 0; k < WIDTH; k++)
                by[k] = rounded_to(gate.tensor.type, activate_any(gate.kind, by[k]));
            if (gate.tensor.at && place == image * pixels)
                store(gate.tensor, at, by);
        }
        for (int k = 0; k < WIDTH; k++)
            value[k] *= by[k];
        store(y, (int64_t)i * WIDTH, value);
    }
}

cudaError_t cuda_channel_scale(struct cuda_array x, struct cuda_array scale, struct cuda_gate gate,
                               struct cuda_array y, int64_t images, int64_t pixels,
                               int64_t channels, cudaStream_t stream)
{
    const int64_t count = images * pixels * channels;

#define LAUNCH(WIDTH, Index)                                                     \
    scale_kernel<WIDTH, Index><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>( \
        x, scale, gate, y, (Index)pixels, (Index)channels, (Index)(count / WIDTH))
    FOR_WIDTH(channels, count, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_channel_scale_backward(struct cuda_array dy, struct cuda_array x,
                                        struct cuda_array scale, struct cuda_gate gate,
                                        struct cuda_array dx, struct cuda_array dscale,
                                        int64_t images, int64_t pixels, int64_t channels,
                                        cudaStream_t stream)
{
    const struct pixel_sums<struct cuda_array> sums = {
        x, dy, scale, dx, dscale, (int)pixels, channels, 0, 1.0f, gate.kind, gate.tensor
    };

    return image_sums<true>(sums, images, stream);
}
