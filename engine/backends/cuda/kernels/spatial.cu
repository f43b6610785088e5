/* spatial.cu: pools whose windows follow from the size of the result, and images made larger or
 * smaller. A gradient's element gathers from all results that read it, in a fixed order. */
#include "engine/backends/cuda/kernels/general.h"
#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

/* The channel, the column, the row and the image of element i of images [image, h, w, c]. */
struct place {
    int64_t c, w, h, image;
};

__device__ static inline struct place place_of(int64_t i, int64_t height, int64_t width,
                                               int64_t channels)
{
    return {i % channels, i / channels % width, i / channels / width % height,
            i / channels / width / height};
}

/* ---- adaptive pools ---- */

struct window {
    int64_t first, end;
};

/* The pixels of which result `out` is made. */
__device__ static inline struct window window_of(int64_t out, int64_t from, int64_t to)
{
    return {out * from / to, ((out + 1) * from + to - 1) / to};
}

/* The results that pixel `at` is a part of. */
__device__ static inline struct window readers_of(int64_t at, int64_t from, int64_t to)
{
    return {at * to / from, ((at + 1) * to + from - 1) / from};
}

__global__ void adaptive_max_kernel(struct cuda_pool pool, struct cuda_array x, struct cuda_array y,
                                    uint8_t *position, int64_t count)
{
    const int64_t columns = pool.width / pool.out_width + 2;

    FOR_EACH_ELEMENT(i, count)
    {
        const struct place at = place_of(i, pool.out_height, pool.out_width, pool.channels);
        const struct window rows = window_of(at.h, pool.height, pool.out_height);
        const struct window part = window_of(at.w, pool.width, pool.out_width);
        float best = -INFINITY;
        uint8_t where = 0;

        for (int64_t h = rows.first; h < rows.end; h++)
            for (int64_t w = part.first; w < part.end; w++) {
                const float value = array_load(
                    x, ((at.image * pool.height + h) * pool.width + w) * pool.channels + at.c);

                if (!(value <= best)) { /* NaN wins, as in PyTorch */
                    best = value;
                    where = (uint8_t)((h - rows.first) * columns + w - part.first);
                }
            }
        array_store(y, i, best);
        if (position)
            position[i] = where;
    }
}

/* What the results that read an element give to it. */
template <bool MAXIMUM>
__global__ void adaptive_backward_kernel(struct cuda_pool pool, struct cuda_array dy,
                                         const uint8_t *position, struct cuda_array dx,
                                         int64_t count)
{
    const int64_t columns = pool.width / pool.out_width + 2;

    FOR_EACH_ELEMENT(i, count)
    {
        const struct place at = place_of(i, pool.height, pool.width, pool.channels);
        const struct window rows = readers_of(at.h, pool.height, pool.out_height);
        const struct window part = readers_of(at.w, pool.width, pool.out_width);
        float sum = 0;

        for (int64_t oh = rows.first; oh < rows.end; oh++)
            for (int64_t ow = part.first; ow < part.end; ow++) {
                const struct window h = window_of(oh, pool.height, pool.out_height);
                const struct window w = window_of(ow, pool.width, pool.out_width);
                const int64_t from =
                    ((at.image * pool.out_height + oh) * pool.out_width + ow) * pool.channels +
                    at.c;

                if (!MAXIMUM)
                    sum += array_load(dy, from) *
                           (1.0f / (float)((h.end - h.first) * (w.end - w.first)));
                else if (position[from] == (at.h - h.first) * columns + at.w - w.first)
                    sum += array_load(dy, from);
            }
        array_store(dx, i, sum);
    }
}

__global__ void adaptive_average_kernel(struct cuda_pool pool, struct cuda_array x,
                                        struct cuda_array y, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        const struct place at = place_of(i, pool.out_height, pool.out_width, pool.channels);
        const struct window rows = window_of(at.h, pool.height, pool.out_height);
        const struct window part = window_of(at.w, pool.width, pool.out_width);
        float sum = 0;

        for (int64_t h = rows.first; h < rows.end; h++)
            for (int64_t w = part.first; w < part.end; w++)
                sum += array_load(
                    x, ((at.image * pool.height + h) * pool.width + w) * pool.channels + at.c);
        array_store(y, i, sum / (float)((rows.end - rows.first) * (part.end - part.first)));
    }
}

static int64_t large_elements(const struct cuda_pool *pool)
{
    return pool->images * pool->channels * pool->height * pool->width;
}

static int64_t small_elements(const struct cuda_pool *pool)
{
    return pool->images * pool->channels * pool->out_height * pool->out_width;
}

cudaError_t cuda_adaptive_max(const struct cuda_pool *pool, struct cuda_array x,
                              struct cuda_array y, uint8_t *position, cudaStream_t stream)
{
    const int64_t count = small_elements(pool);

    adaptive_max_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*pool, x, y, position, count);
    return cudaGetLastError();
}

cudaError_t cuda_adaptive_max_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                       const uint8_t *position, struct cuda_array dx,
                                       cudaStream_t stream)
{
    const int64_t count = large_elements(pool);

    adaptive_backward_kernel<true>
        <<<blocks_for(count), BLOCK, 0, stream>>>(*pool, dy, position, dx, count);
    return cudaGetLastError();
}

cudaError_t cuda_adaptive_average(const struct cuda_pool *pool, struct cuda_array x,
                                  struct cuda_array y, cudaStream_t stream)
{
    const int64_t count = small_elements(pool);

    adaptive_average_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*pool, x, y, count);
    return cudaGetLastError();
}

cudaError_t cuda_adaptive_average_backward(const struct cuda_pool *pool, struct cuda_array dy,
                                           struct cuda_array dx, cudaStream_t stream)
{
    const int64_t count = large_elements(pool);

    adaptive_backward_kernel<false>
        <<<blocks_for(count), BLOCK, 0, stream>>>(*pool, dy, NULL, dx, count);
    return cudaGetLastError();
}

/* ---- larger or smaller: as engine/backends/cpu/kernels/resize.c does it ---- */

/* Where a point of the result lies between two of the operand, along one axis. */
struct between {
    int64_t first, second;
    float weight; /* of the second */
};

__device__ static inline struct between between_of(const struct cuda_resize &resize, int axis,
                                                   int64_t out)
{
    const int64_t last = resize.from[axis] - 1;
    const float step = resize.step[axis];
    float at;
    struct between found;

    if (resize.mode == RESIZE_NEAREST) {
        const int64_t nearest = min((int64_t)floorf(__fmul_rn((float)out, step)), last);

        return {nearest, nearest, 0.0f};
    }
    at = resize.mode == RESIZE_BILINEAR ? __fsub_rn(__fmul_rn((float)out + 0.5f, step), 0.5f)
                                        : __fmul_rn((float)out, step);
    at = fmaxf(at, 0.0f);
    found.first = min((int64_t)at, last);
    found.second = min(found.first + 1, last);
    found.weight = at - (float)found.first;
    return found;
}

/* The share of result `out` that is read from `at`. */
__device__ static inline float share_of(const struct cuda_resize &resize, int axis, int64_t out,
                                        int64_t at)
{
    const struct between between = between_of(resize, axis, out);

    return (between.first == at ? 1.0f - between.weight : 0.0f) +
           (between.second == at ? between.weight : 0.0f);
}

/* Results beyond which none reads `at`: a little more than the exact bounds. */
__device__ static inline struct window candidates_of(const struct cuda_resize &resize, int axis,
                                                     int64_t at)
{
    const float step = resize.step[axis];
    const int64_t to = resize.to[axis];
    struct window found = {0, to};

    if (!(step > 0))
        return found;
    if (at > 0)
        found.first = max((int64_t)0, (int64_t)(((float)at - 1.0f) / step) - 2);
    if (at < resize.from[axis] - 1)
        found.end = min(to, (int64_t)(((float)at + 2.0f) / step) + 3);
    return found;
}

__global__ void resize_kernel(struct cuda_resize resize, struct cuda_array x, struct cuda_array y,
                              int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        const struct place at = place_of(i, resize.to[0], resize.to[1], resize.channels);
        const struct between h = between_of(resize, 0, at.h), w = between_of(resize, 1, at.w);
        const int64_t row = resize.from[1] * resize.channels;
        const int64_t image = at.image * resize.from[0] * row + at.c;
        const int64_t top = image + h.first * row, bottom = image + h.second * row;
        const int64_t left = w.first * resize.channels, right = w.second * resize.channels;
        float upper, lower;

        if (resize.mode == RESIZE_NEAREST) {
            array_store(y, i, array_load(x, top + left));
            continue;
        }
        upper =
            (1.0f - w.weight) * array_load(x, top + left) + w.weight * array_load(x, top + right);
        lower = (1.0f - w.weight) * array_load(x, bottom + left) +
                w.weight * array_load(x, bottom + right);
        array_store(y, i, (1.0f - h.weight) * upper + h.weight * lower);
    }
}

__global__ void resize_backward_kernel(struct cuda_resize resize, struct cuda_array dy,
                                       struct cuda_array dx, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        const struct place at = place_of(i, resize.from[0], resize.from[1], resize.channels);
        const struct window rows = candidates_of(resize, 0, at.h);
        const struct window part = candidates_of(resize, 1, at.w);
        float sum = 0;

        for (int64_t oh = rows.first; oh < rows.end; oh++) {
            const float of_row = share_of(resize, 0, oh, at.h);

            for (int64_t ow = part.first; of_row != 0 && ow < part.end; ow++) {
                const float share = of_row * share_of(resize, 1, ow, at.w);

                if (share != 0)
                    sum += share * array_load(dy, ((at.image * resize.to[0] + oh) * resize.to[1] +
                                                   ow) * resize.channels +
                                                      at.c);
            }
        }
        array_store(dx, i, sum);
    }
}

cudaError_t cuda_resize(const struct cuda_resize *resize, struct cuda_array x, struct cuda_array y,
                        cudaStream_t stream)
{
    const int64_t count = resize->images * resize->channels * resize->to[0] * resize->to[1];

    resize_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*resize, x, y, count);
    return cudaGetLastError();
}

cudaError_t cuda_resize_backward(const struct cuda_resize *resize, struct cuda_array dy,
                                 struct cuda_array dx, cudaStream_t stream)
{
    const int64_t count = resize->images * resize->channels * resize->from[0] * resize->from[1];

    resize_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*resize, dy, dx, count);
    return cudaGetLastError();
}
