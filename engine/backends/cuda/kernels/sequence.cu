/* sequence.cu: sequences [batch, steps, features]: the maximum over time, their lengths and what
 * lies behind their ends, features side by side, and both strands of DNA. */
#include "engine/backends/cuda/kernels/sequence.h"
#include "engine/backends/cuda/kernels/values.cuh"

/* Between 1 and the steps, whatever the data says. */
__device__ static inline int64_t length_of(const struct cuda_time_pool &pool, int64_t sample)
{
    const int64_t length = pool.lengths ? pool.lengths[sample] : pool.steps;

    return length < 1 ? 1 : length > pool.steps ? pool.steps : length;
}

/* ---- maximum --------------------------------------------------------------------------------- */

/* A comparison with NaN is false: it is taken once and stays, as on the CPU. */
__global__ void max_over_time_kernel(struct cuda_time_pool pool, struct cuda_array x,
                                     struct cuda_array y, int32_t *position)
{
    FOR_EACH_ELEMENT(i, pool.batch * pool.features)
    {
        const int64_t sample = i / pool.features, length = length_of(pool, sample);
        const int64_t first = sample * pool.steps * pool.features + i % pool.features;
        float most = array_load(x, first);
        int32_t place = 0;

#pragma unroll 8
        for (int64_t t = 1; t < length; t++) {
            const float value = array_load(x, first + t * pool.features);

            if (!(value <= most) && most == most) {
                most = value;
                place = (int32_t)t;
            }
        }
        array_store(y, i, most);
        if (position)
            position[i] = place;
    }
}

cudaError_t cuda_max_over_time(const struct cuda_time_pool *pool, struct cuda_array x,
                               struct cuda_array y, int32_t *position, cudaStream_t stream)
{
    max_over_time_kernel<<<blocks_for(pool->batch * pool->features), BLOCK, 0, stream>>>(
        *pool, x, y, position);
    return cudaGetLastError();
}

__global__ void max_over_time_backward_kernel(struct cuda_time_pool pool, struct cuda_array dy,
                                              const int32_t *position, struct cuda_array dx)
{
    FOR_EACH_ELEMENT(i, pool.batch * pool.steps * pool.features)
    {
        const int64_t row = i / pool.features;
        const int64_t at = row / pool.steps * pool.features + i % pool.features;

        array_store(dx, i, row % pool.steps == position[at] ? array_load(dy, at) : 0.0f);
    }
}

cudaError_t cuda_max_over_time_backward(const struct cuda_time_pool *pool, struct cuda_array dy,
                                        const int32_t *position, struct cuda_array dx,
                                        cudaStream_t stream)
{
    max_over_time_backward_kernel<<<blocks_for(pool->batch * pool->steps * pool->features), BLOCK,
                                    0, stream>>>(*pool, dy, position, dx);
    return cudaGetLastError();
}

/* ---- steps that do not count ----------------------------------------------------------------- */

__global__ void mask_steps_kernel(struct cuda_time_pool pool, struct cuda_array x,
                                  struct cuda_array y)
{
    FOR_EACH_ELEMENT(i, pool.batch * pool.steps * pool.features)
    {
        const int64_t row = i / pool.features;
        const bool counts = row % pool.steps < length_of(pool, row / pool.steps);

        array_store(y, i, counts ? array_load(x, i) : 0.0f);
    }
}

cudaError_t cuda_mask_steps(const struct cuda_time_pool *pool, struct cuda_array x,
                            struct cuda_array y, cudaStream_t stream)
{
    mask_steps_kernel<<<blocks_for(pool->batch * pool->steps * pool->features), BLOCK, 0, stream>>>(
        *pool, x, y);
    return cudaGetLastError();
}

/* ---- side by side ---------------------------------------------------------------------------- */

template <bool JOIN> __global__ void columns_kernel(struct cuda_columns columns, int64_t row_width)
{
    FOR_EACH_ELEMENT(i, columns.rows * row_width)
    {
        const int64_t row = i / row_width;
        int64_t column = i % row_width;

        /* unrolled: the parts stay in the constant bank of the arguments */
#pragma unroll
        for (int p = 0; p < GRAPH_OUTPUTS_MAX; p++) {
            if (p < columns.count && column >= 0 && column < columns.width[p]) {
                const int64_t at = row * columns.width[p] + column;

                if (JOIN)
                    array_store(columns.wide, i, array_load(columns.part[p], at));
                else
                    array_store(columns.part[p], at, array_load(columns.wide, i));
            }
            column -= p < columns.count ? columns.width[p] : 0;
        }
    }
}

template <bool JOIN>
static cudaError_t launch_columns(const struct cuda_columns *columns, cudaStream_t stream)
{
    int64_t width = 0;

    for (int p = 0; p < columns->count; p++)
        width += columns->width[p];
    columns_kernel<JOIN><<<blocks_for(columns->rows * width), BLOCK, 0, stream>>>(*columns, width);
    return cudaGetLastError();
}

cudaError_t cuda_concatenate(const struct cuda_columns *columns, cudaStream_t stream)
{
    return launch_columns<true>(columns, stream);
}

cudaError_t cuda_split(const struct cuda_columns *columns, cudaStream_t stream)
{
    return launch_columns<false>(columns, stream);
}

/* ---- both strands ---------------------------------------------------------------------------- */

__global__ void both_strands_kernel(struct complement_attributes complement, const int32_t *x,
                                    int32_t *y, int64_t batch, int64_t length)
{
    FOR_EACH_ELEMENT(i, batch * length)
    {
        const int64_t sample = i / length, t = i % length;
        const int32_t symbol = x[i];
        const bool pairs = symbol >= 0 && symbol < complement.symbols;

        y[sample * 2 * length + t] = symbol;
        y[(sample + 1) * 2 * length - 1 - t] = pairs ? complement.of[symbol] : symbol;
    }
}

cudaError_t cuda_both_strands(const struct complement_attributes *complement, const int32_t *x,
                              int32_t *y, int64_t batch, int64_t length, cudaStream_t stream)
{
    both_strands_kernel<<<blocks_for(batch * length), BLOCK, 0, stream>>>(*complement, x, y, batch,
                                                                          length);
    return cudaGetLastError();
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* A block has a sample: the last of its steps that is no padding. */
__global__ void sequence_lengths_kernel(const int32_t *index, int32_t *lengths, int64_t steps,
                                        int32_t padding)
{
    const int32_t *own = index + (int64_t)blockIdx.x * steps;
    __shared__ int most;
    int last = 1;

    if (threadIdx.x == 0)
        most = 1;
    __syncthreads();
    for (int64_t t = threadIdx.x; t < steps; t += BLOCK)
        if (own[t] != padding)
            last = (int)t + 1;
    atomicMax(&most, last);
    __syncthreads();
    if (threadIdx.x == 0)
        lengths[blockIdx.x] = most;
}

cudaError_t cuda_sequence_lengths(const int32_t *index, int32_t *lengths, int64_t batch,
                                  int64_t steps, int32_t padding, cudaStream_t stream)
{
    sequence_lengths_kernel<<<(unsigned)batch, BLOCK, 0, stream>>>(index, lengths, steps, padding);
    return cudaGetLastError();
}

__global__ void window_lengths_kernel(struct window_lengths windows, const int32_t *lengths,
                                      int32_t *result, int64_t batch)
{
    FOR_EACH_ELEMENT(i, batch)
    {
        const int64_t count = (lengths[i] + windows.more) / windows.stride;

        result[i] = (int32_t)max(count, (int64_t)1);
    }
}

cudaError_t cuda_window_lengths(const struct window_lengths *windows, const int32_t *lengths,
                                int32_t *result, int64_t batch, cudaStream_t stream)
{
    window_lengths_kernel<<<blocks_for(batch), BLOCK, 0, stream>>>(*windows, lengths, result,
                                                                   batch);
    return cudaGetLastError();
}
