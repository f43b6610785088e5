/* images.cu: pools and channel scales of images channels-last. A thread has one pixel's eight
 * channels, or one where eight do not divide them. Gradients are gathered, pixel by pixel, window
 * after window: no two threads add to the same number. */
#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

template <int WIDTH>
__device__ static inline void load(const struct cuda_array &a, int64_t at, float (&value)[WIDTH])
{
    if (WIDTH == GROUP) {
        const struct group g = array_load_group(a, at);

        for (int k = 0; k < WIDTH; k++)
            value[k] = g.value[k];
    } else {
        value[0] = array_load(a, at);
    }
}

template <int WIDTH>
__device__ static inline void store(const struct cuda_array &a, int64_t at,
                                    const float (&value)[WIDTH])
{
    if (WIDTH == GROUP) {
        struct group g;

        for (int k = 0; k < WIDTH; k++)
            g.value[k] = value[k];
        array_store_group(a, at, g);
    } else {
        array_store(a, at, value[0]);
    }
}

/* ---- pools ------------------------------------------------------------------------------------
 */

/* What a thread has: channels from `channel` on of a pixel (row, column) of an image. */
struct pixel {
    int64_t image, row, column, channel;
};

template <int WIDTH>
__device__ static inline struct pixel pixel_at(int64_t i, int64_t height, int64_t width,
                                               int64_t channels)
{
    const int64_t strips = channels / WIDTH, place = i / strips;

    return {place / (height * width), place / width % height, place % width, i % strips * WIDTH};
}

/* The windows along one axis that a pixel lies in, or the pixels of a window: [first, end). */
struct span {
    int64_t first, end;
};

__device__ static inline struct span pixels_of(const struct cuda_pool &p, int axis, int64_t out,
                                               int64_t extent)
{
    const int64_t start = out * p.stride[axis] - p.padding[axis];
    const int64_t end = start + p.kernel[axis];

    return {start < 0 ? 0 : start, end > extent ? extent : end};
}

__device__ static inline struct span windows_of(const struct cuda_pool &p, int axis, int64_t pixel,
                                                int64_t windows)
{
    const int64_t place = pixel + p.padding[axis], before = place - p.kernel[axis];
    const int64_t end = place / p.stride[axis] + 1;

    return {before < 0 ? 0 : before / p.stride[axis] + 1, end > windows ? windows : end};
}

template <int WIDTH, bool MAXIMUM>
__global__ void pool_kernel(struct cuda_pool p, struct cuda_array x, struct cuda_array y,
                            uint8_t *position, int64_t count)
{
    FOR_EACH_ELEMENT (i, count) {
        const struct pixel out = pixel_at<WIDTH>(i, p.out_height, p.out_width, p.channels);
        const struct span rows = pixels_of(p, 0, out.row, p.height);
        const struct span columns = pixels_of(p, 1, out.column, p.width);
        const int64_t start = out.row * p.stride[0] - p.padding[0];
        const int64_t left = out.column * p.stride[1] - p.padding[1];
        float best[WIDTH], value[WIDTH];
        uint8_t where[WIDTH] = {};

        for (int k = 0; k < WIDTH; k++)
            best[k] = MAXIMUM ? -INFINITY : 0.0f;
        for (int64_t h = rows.first; h < rows.end; h++)
            for (int64_t w = columns.first; w < columns.end; w++) {
                load(x, ((out.image * p.height + h) * p.width + w) * p.channels + out.channel,
                     value);
                for (int k = 0; k < WIDTH; k++) {
                    if (!MAXIMUM) {
                        best[k] += value[k];
                    } else if (!(value[k] <= best[k])) { /* NaN wins, as in PyTorch */
                        best[k] = value[k];
                        where[k] = (uint8_t)((h - start) * p.kernel[1] + w - left);
                    }
                }
            }
        for (int k = 0; k < WIDTH && !MAXIMUM; k++)
            best[k] /= (float)(p.kernel[0] * p.kernel[1]);
        store(y, i * WIDTH, best);
        for (int k = 0; k < WIDTH && MAXIMUM && position; k++)
            position[i * WIDTH + k] = where[k];
    }
}

template <int WIDTH, bool MAXIMUM>
__global__ void pool_backward_kernel(struct cuda_pool p, struct cuda_array dy,
                                     const uint8_t *position, struct cuda_array dx, int64_t count)
{
    FOR_EACH_ELEMENT (i, count) {
        const struct pixel in = pixel_at<WIDTH>(i, p.height, p.width, p.channels);
        const struct span rows = windows_of(p, 0, in.row, p.out_height);
        const struct span columns = windows_of(p, 1, in.column, p.out_width);
        float sum[WIDTH] = {}, value[WIDTH];

        for (int64_t oh = rows.first; oh < rows.end; oh++)
            for (int64_t ow = columns.first; ow < columns.end; ow++) {
                const int64_t h = in.row - (oh * p.stride[0] - p.padding[0]);
                const int64_t w = in.column - (ow * p.stride[1] - p.padding[1]);
                const int64_t at =
                    ((in.image * p.out_height + oh) * p.out_width + ow) * p.channels + in.channel;

                load(dy, at, value);
                for (int k = 0; k < WIDTH; k++)
                    if (!MAXIMUM || position[at + k] == h * p.kernel[1] + w)
                        sum[k] += value[k];
            }
        for (int k = 0; k < WIDTH && !MAXIMUM; k++)
            sum[k] /= (float)(p.kernel[0] * p.kernel[1]);
        store(dx, i * WIDTH, sum);
    }
}

#define FOR_WIDTH(channels, LAUNCH) \
    if ((channels) % GROUP == 0)    \
        LAUNCH(GROUP);              \
    else                            \
        LAUNCH(1)

cudaError_t cuda_max_pool(const struct cuda_pool *pool, struct cuda_array x, struct cuda_array y,
                          uint8_t *position, cudaStream_t stream)
{
    const int64_t count = pool->images * pool->out_height * pool->out_width * pool->channels;

#define LAUNCH(WIDTH)                                                            \
    pool_kernel<WIDTH, true><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>(   \
        *pool, x, y, position, count / WIDTH)
    FOR_WIDTH(pool->channels, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_average_pool(const struct cuda_pool *pool, struct cuda_array x,
                              struct cuda_array y, cudaStream_t stream)
{
    const int64_t count = pool->images * pool->out_height * pool->out_width * pool->channels;

#define LAUNCH(WIDTH)                                                            \
    pool_kernel<WIDTH, false><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>(  \
        *pool, x, y, NULL, count / WIDTH)
    FOR_WIDTH(pool->channels, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_max_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                   const uint8_t *position, struct cuda_array dx,
                                   cudaStream_t stream)
{
    const int64_t count = pool->images * pool->height * pool->width * pool->channels;

#define LAUNCH(WIDTH)                                                                    \
    pool_backward_kernel<WIDTH, true><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>(  \
        *pool, dy, position, dx, count / WIDTH)
    FOR_WIDTH(pool->channels, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_average_pool_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                       struct cuda_array dx, cudaStream_t stream)
{
    const int64_t count = pool->images * pool->height * pool->width * pool->channels;

#define LAUNCH(WIDTH)                                                                    \
    pool_backward_kernel<WIDTH, false><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>( \
        *pool, dy, NULL, dx, count / WIDTH)
    FOR_WIDTH(pool->channels, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}

/* ---- channel scale ----------------------------------------------------------------------------
 */

template <int WIDTH>
__global__ void scale_kernel(struct cuda_array x, struct cuda_array scale, struct cuda_array y,
                             int64_t pixels, int64_t channels, int64_t count)
{
    FOR_EACH_ELEMENT (i, count) {
        const int64_t strips = channels / WIDTH;
        const int64_t image = i / (strips * pixels), channel = i % strips * WIDTH;
        float value[WIDTH], by[WIDTH];

        load(x, i * WIDTH, value);
        load(scale, image * channels + channel, by);
        for (int k = 0; k < WIDTH; k++)
            value[k] *= by[k];
        store(y, i * WIDTH, value);
    }
}

/* A block has SIDE strips of channels of one image; its threads take the pixels in turn. */
constexpr int SIDE = 8, PIXELS = BLOCK / SIDE;

template <int WIDTH>
__global__ void scale_backward_kernel(struct cuda_array dy, struct cuda_array x,
                                      struct cuda_array scale, struct cuda_array dx,
                                      struct cuda_array dscale, int64_t pixels, int64_t channels)
{
    __shared__ float shared[PIXELS][SIDE][WIDTH];
    const int side = threadIdx.x % SIDE, lane = threadIdx.x / SIDE;
    const int64_t image = blockIdx.x, channel = ((int64_t)blockIdx.y * SIDE + side) * WIDTH;
    float by[WIDTH] = {}, sum[WIDTH] = {};

    if (channel < channels)
        load(scale, image * channels + channel, by);
    for (int64_t p = lane; p < pixels && channel < channels; p += PIXELS) {
        const int64_t at = (image * pixels + p) * channels + channel;
        float d[WIDTH], v[WIDTH];

        load(dy, at, d);
        load(x, at, v);
        for (int k = 0; k < WIDTH; k++) {
            sum[k] += d[k] * v[k];
            d[k] *= by[k];
        }
        store(dx, at, d);
    }
    for (int k = 0; k < WIDTH; k++)
        shared[lane][side][k] = sum[k];
    __syncthreads();
    if (lane > 0 || channel >= channels)
        return;
    for (int other = 1; other < PIXELS; other++)
        for (int k = 0; k < WIDTH; k++)
            sum[k] += shared[other][side][k];
    store(dscale, image * channels + channel, sum);
}

cudaError_t cuda_channel_scale(struct cuda_array x, struct cuda_array scale, struct cuda_array y,
                               int64_t images, int64_t pixels, int64_t channels,
                               cudaStream_t stream)
{
    const int64_t count = images * pixels * channels;

#define LAUNCH(WIDTH)                                                       \
    scale_kernel<WIDTH><<<blocks_for(count / WIDTH), BLOCK, 0, stream>>>(   \
        x, scale, y, pixels, channels, count / WIDTH)
    FOR_WIDTH(channels, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t cuda_channel_scale_backward(struct cuda_array dy, struct cuda_array x,
                                        struct cuda_array scale, struct cuda_array dx,
                                        struct cuda_array dscale, int64_t images, int64_t pixels,
                                        int64_t channels, cudaStream_t stream)
{
#define LAUNCH(WIDTH)                                                                       \
    scale_backward_kernel<WIDTH>                                                            \
        <<<dim3((unsigned)images, (unsigned)((channels / WIDTH + SIDE - 1) / SIDE)), BLOCK, \
           0, stream>>>(dy, x, scale, dx, dscale, pixels, channels)
    FOR_WIDTH(channels, LAUNCH);
#undef LAUNCH
    return cudaGetLastError();
}
