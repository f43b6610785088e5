/* reduce.cu: sums over rows. */
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int COLUMNS = 32;       /* of a block */
constexpr int FEW = 8, MANY = 32; /* threads that share a column's rows */
/* at most so many rows take few threads, eight reads of each */
constexpr int ROWS_OF_FEW = 64;

/* Returns the sum of a column to its first thread: its threads' sums, added in their order. */
template <int LANES> __device__ static inline float column_total(float total)
{
    __shared__ float partial[LANES][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;

    partial[lane][column] = total;
    __syncthreads();
    for (int k = 1; lane == 0 && k < LANES; k++)
        total += partial[k][column];
    return total;
}

/* A block has 32 columns. LANES threads sum up each column and take its rows in turn. */
template <int LANES>
__global__ void column_sum_kernel(struct cuda_array x, int64_t rows, int64_t pitch, int64_t columns,
                                  bool accumulate, float *sum)
{
    int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    int lane = threadIdx.x / COLUMNS;
    float total = 0;

    if (column < columns)
#pragma unroll 8
        for (int64_t r = lane; r < rows; r += LANES)
            total += array_load(x, r * pitch + column);
    total = column_total<LANES>(total);
    if (lane == 0 && column < columns)
        sum[column] = accumulate ? sum[column] + total : total;
}

cudaError_t cuda_strided_column_sum(struct cuda_array x, int64_t rows, int64_t pitch,
                                    int64_t columns, bool accumulate, float *sum,
                                    cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((columns + COLUMNS - 1) / COLUMNS);

    if (rows <= ROWS_OF_FEW)
        column_sum_kernel<FEW>
            <<<blocks, FEW * COLUMNS, 0, stream>>>(x, rows, pitch, columns, accumulate, sum);
    else
        column_sum_kernel<MANY>
            <<<blocks, MANY * COLUMNS, 0, stream>>>(x, rows, pitch, columns, accumulate, sum);
    return cudaGetLastError();
}

cudaError_t cuda_column_sum(struct cuda_array x, int64_t rows, int64_t columns, bool accumulate,
                            float *sum, cudaStream_t stream)
{
    return cuda_strided_column_sum(x, rows, columns, columns, accumulate, sum, stream);
}

/* The same for `count` rows of `channels` times `taps` columns each, which it transposes. */
template <int LANES>
__global__ void filter_total_kernel(const float *parts, int count, int channels, int taps,
                                    bool accumulate, float *sum)
{
    const int lane = threadIdx.x / COLUMNS, i = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    float total = 0, *to = sum + (int64_t)(i % channels) * taps + i / channels;

    if (i < channels * taps)
#pragma unroll 8
        for (int p = lane; p < count; p += LANES)
            total += parts[(int64_t)p * taps * channels + i];
    total = column_total<LANES>(total);
    if (lane == 0 && i < channels * taps)
        *to = accumulate ? *to + total : total;
}

cudaError_t cuda_filter_total(const float *parts, int count, int channels, int taps,
                              bool accumulate, float *sum, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((channels * taps + COLUMNS - 1) / COLUMNS);

    if (count <= ROWS_OF_FEW)
        filter_total_kernel<FEW>
            <<<blocks, FEW * COLUMNS, 0, stream>>>(parts, count, channels, taps, accumulate, sum);
    else
        filter_total_kernel<MANY>
            <<<blocks, MANY * COLUMNS, 0, stream>>>(parts, count, channels, taps, accumulate, sum);
    return cudaGetLastError();
}
