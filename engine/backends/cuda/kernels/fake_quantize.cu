/* fake_quantize.cu: rounds numbers as integers of 8 bits would hold them, and keeps the running
 * range of a tensor, as engine/backends/cpu/operator_fake_quantize.c does it. */
#include "engine/backends/cuda/kernels/general.h"
#include "engine/backends/cuda/kernels/values.cuh"

#include <cfloat>
#include <math.h>

constexpr float VALUE_MAX = 255.0f;
constexpr float RANGE_MOMENTUM = 0.01f; /* PyTorch's averaging_constant */

struct extremes {
    float least, most;
};

/* Of the block's threads; every thread gets them. */
__device__ static inline struct extremes block_extremes(struct extremes own)
{
    __shared__ struct extremes shared[BLOCK];

    __syncthreads(); /* other threads may still read the previous ones */
    shared[threadIdx.x] = own;
    __syncthreads();
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
        if (threadIdx.x < distance) {
            const struct extremes other = shared[threadIdx.x + distance];
            struct extremes &mine = shared[threadIdx.x];

            mine = {fminf(mine.least, other.least), fmaxf(mine.most, other.most)};
        }
        __syncthreads();
    }
    return shared[0];
}

/* ---- the range of a tensor ---- */

__device__ static inline bool is_known(const float *range)
{
    return range[0] != 0 || range[1] != 0;
}

/* scale (value - zero); see graph_quantization_of_range(). */
struct scale {
    float step, zero;
};

__device__ static inline struct scale scale_of(const float *range)
{
    const float least = fminf(range[0], 0), most = fmaxf(range[1], 0);
    float step = (most - least) / VALUE_MAX;

    if (!(step > VALUE_MAX * FLT_MIN))
        step = 1;
    return {step, rintf(-least / step)};
}

__global__ void range_parts_kernel(struct cuda_array x, int64_t count, float *parts)
{
    struct extremes found = {INFINITY, -INFINITY};

    FOR_EACH_ELEMENT(i, count)
    {
        const float value = array_load(x, i);

        found = {fminf(found.least, value), fmaxf(found.most, value)};
    }
    found = block_extremes(found);
    if (threadIdx.x == 0) {
        parts[2 * blockIdx.x] = found.least;
        parts[2 * blockIdx.x + 1] = found.most;
    }
}

__global__ void range_follow_kernel(const float *parts, int count, float *range)
{
    struct extremes found = {INFINITY, -INFINITY};

    if ((int)threadIdx.x < count)
        found = {parts[2 * threadIdx.x], parts[2 * threadIdx.x + 1]};
    found = block_extremes(found);
    if (threadIdx.x > 0 || !isfinite(found.least) || !isfinite(found.most))
        return; /* the loss will tell */
    if (is_known(range)) {
        range[0] += RANGE_MOMENTUM * (found.least - range[0]);
        range[1] += RANGE_MOMENTUM * (found.most - range[1]);
    } else {
        range[0] = found.least;
        range[1] = found.most;
    }
}

cudaError_t cuda_observe_range(struct cuda_array x, int64_t count, float *range, float *scratch,
                               cudaStream_t stream)
{
    const unsigned most = CUDA_RANGE_PARTS, blocks = blocks_for(count);
    const unsigned parts = blocks < most ? blocks : most;

    static_assert(CUDA_RANGE_PARTS <= BLOCK, "a block reads the ranges of all parts");
    range_parts_kernel<<<parts, BLOCK, 0, stream>>>(x, count, scratch);
    range_follow_kernel<<<1, BLOCK, 0, stream>>>(scratch, (int)parts, range);
    return cudaGetLastError();
}

/* x in steps, less than which it is rounded to; far from the range it need not be exact. */
__device__ static inline float integer_of(float x, const struct scale &scale)
{
    return rintf(fminf(fmaxf(x * (1.0f / scale.step), -256.0f), 511.0f)) + scale.zero;
}

__device__ static inline float rounded(float x, const struct scale &scale)
{
    const float value = fminf(fmaxf(integer_of(x, scale), 0.0f), VALUE_MAX);

    return x == x ? (value - scale.zero) * scale.step : x;
}

__global__ void fake_quantize_kernel(struct cuda_array x, int64_t count, const float *range,
                                     struct cuda_array y)
{
    const bool known = is_known(range);
    const struct scale scale = scale_of(range);

    FOR_EACH_ELEMENT(i, count)
    {
        const float value = array_load(x, i);

        array_store(y, i, known ? rounded(value, scale) : value);
    }
}

cudaError_t cuda_fake_quantize(struct cuda_array x, int64_t count, const float *range,
                               struct cuda_array y, cudaStream_t stream)
{
    fake_quantize_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(x, count, range, y);
    return cudaGetLastError();
}

__global__ void fake_quantize_backward_kernel(struct cuda_array dy, struct cuda_array x,
                                              int64_t count, const float *range,
                                              struct cuda_array dx)
{
    const bool known = is_known(range);
    const struct scale scale = scale_of(range);

    FOR_EACH_ELEMENT(i, count)
    {
        const float integer = integer_of(array_load(x, i), scale);
        const bool cut = known && !(integer >= 0.0f && integer <= VALUE_MAX);

        array_store(dx, i, cut ? 0.0f : array_load(dy, i));
    }
}

cudaError_t cuda_fake_quantize_backward(struct cuda_array dy, struct cuda_array x, int64_t count,
                                        const float *range, struct cuda_array dx,
                                        cudaStream_t stream)
{
    fake_quantize_backward_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(dy, x, count, range, dx);
    return cudaGetLastError();
}

/* ---- rows ---- */

constexpr float SYMMETRIC_MAX = 127.0f;

/* A block has a row. */
__global__ void rows_kernel(int64_t width, bool symmetric, struct cuda_array x, struct cuda_array y)
{
    const int64_t row = blockIdx.x * width;
    struct extremes found = {0, 0};

    for (int64_t i = threadIdx.x; i < width; i += BLOCK) {
        const float value = array_load(x, row + i);

        found = {fminf(found.least, value), fmaxf(found.most, value)};
    }
    found = block_extremes(found);
    const float most = fmaxf(-found.least, found.most);
    const float step = (found.most - found.least) * (1.0f / VALUE_MAX);
    const float of_weight = most > SYMMETRIC_MAX * FLT_MIN ? most / SYMMETRIC_MAX : 1.0f;
    const float of_row = step > 0 ? step : 1.0f;
    const struct scale scale = {of_row, rintf(-found.least / of_row)};

    for (int64_t i = threadIdx.x; i < width; i += BLOCK) {
        const float value = array_load(x, row + i);

        array_store(y, row + i,
                    symmetric ? rintf(value / of_weight) * of_weight : rounded(value, scale));
    }
}

cudaError_t cuda_fake_quantize_rows(int64_t rows, int64_t width, bool symmetric,
                                    struct cuda_array x, struct cuda_array y, cudaStream_t stream)
{
    rows_kernel<<<(unsigned)rows, BLOCK, 0, stream>>>(width, symmetric, x, y);
    return cudaGetLastError();
}
