/* reduce.cu: sums over rows. */
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int COLUMNS = 32, LANES = BLOCK / COLUMNS;

/* A block has 32 columns. 8 threads sum up each column and take its rows in turn. */
__global__ void column_sum_kernel(struct cuda_array x, int64_t rows, int64_t columns,
                                  bool accumulate, float *sum)
{
    __shared__ float partial[LANES][COLUMNS];
    int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    int lane = threadIdx.x / COLUMNS;
    float total = 0;

    if (column < columns)
        for (int64_t r = lane; r < rows; r += LANES)
            total += array_load(x, r * columns + column);
    partial[lane][threadIdx.x % COLUMNS] = total;
    __syncthreads();
    if (lane > 0 || column >= columns)
        return;
    for (int k = 1; k < LANES; k++)
        total += partial[k][threadIdx.x];
    sum[column] = accumulate ? sum[column] + total : total;
}

cudaError_t cuda_column_sum(struct cuda_array x, int64_t rows, int64_t columns, bool accumulate,
                            float *sum, cudaStream_t stream)
{
    column_sum_kernel<<<(unsigned)((columns + COLUMNS - 1) / COLUMNS), BLOCK, 0, stream>>>(
        x, rows, columns, accumulate, sum);
    return cudaGetLastError();
}

/* The same for `count` rows of `channels` times `taps` columns each, which it transposes. */
__global__ void filter_total_kernel(const float *parts, int count, int channels, int taps,
                                    bool accumulate, float *sum)
{
    __shared__ float partial[LANES][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, i = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    float total = 0, *to = sum + (int64_t)(i % channels) * taps + i / channels;

    if (i < channels * taps)
        for (int p = lane; p < count; p += LANES)
            total += parts[(int64_t)p * taps * channels + i];
    partial[lane][threadIdx.x % COLUMNS] = total;
    __syncthreads();
    if (lane > 0 || i >= channels * taps)
        return;
    for (int k = 1; k < LANES; k++)
        total += partial[k][threadIdx.x];
    *to = accumulate ? *to + total : total;
}

cudaError_t cuda_filter_total(const float *parts, int count, int channels, int taps,
                              bool accumulate, float *sum, cudaStream_t stream)
{
    filter_total_kernel<<<(unsigned)((channels * taps + COLUMNS - 1) / COLUMNS), BLOCK, 0,
                          stream>>>(parts, count, channels, taps, accumulate, sum);
    return cudaGetLastError();
}
