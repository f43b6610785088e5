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

/* ---- many rows ---- */

constexpr int CHUNKS = 16, SHARERS = BLOCK / CHUNKS; /* of a block: columns / GROUP, and rows */
constexpr int ROWS_AHEAD = 8;                        /* that a thread asks for at once */
constexpr int64_t PARTS_MAX = 128;

/* A block has CHUNKS x GROUP columns of a part of the rows. Its threads take the rows in turn, and
 * their sums are added in their order. */
template <typename T>
__global__ void long_column_sum_kernel(const T *x, int64_t rows, int64_t columns,
                                       int64_t rows_of_part, float *parts)
{
    __shared__ float shared[SHARERS][CHUNKS * GROUP];
    const int chunk = threadIdx.x % CHUNKS, sharer = threadIdx.x / CHUNKS;
    const int64_t low = (int64_t)blockIdx.x * CHUNKS * GROUP, column = low + chunk * GROUP;
    const int64_t end = min(rows, (blockIdx.y + 1) * rows_of_part);
    float total[GROUP] = {};

    for (int64_t first = blockIdx.y * rows_of_part + sharer; first < end && column < columns;
         first += SHARERS * ROWS_AHEAD) {
        union packed<T> value[ROWS_AHEAD];

#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++)
            if (first + i * SHARERS < end)
                packed_load(&value[i], x + (first + i * SHARERS) * columns + column);
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++)
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                total[k] += first + i * SHARERS < end ? to_float(value[i].value[k]) : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < GROUP; k++)
        shared[sharer][chunk * GROUP + k] = total[k];
    __syncthreads();
    if (threadIdx.x < CHUNKS * GROUP && low + threadIdx.x < columns) {
        float sum = 0;

        for (int s = 0; s < SHARERS; s++)
            sum += shared[s][threadIdx.x];
        parts[blockIdx.y * columns + low + threadIdx.x] = sum;
    }
}

cudaError_t cuda_long_column_sum(struct cuda_array x, int64_t rows, int64_t columns,
                                 bool accumulate, float *sum, void *scratch, size_t scratch_bytes,
                                 cudaStream_t stream)
{
    const int64_t room = (int64_t)(scratch_bytes / sizeof(float)) / columns;
    const int64_t limit = room < PARTS_MAX ? room : PARTS_MAX;
    const int64_t busy = rows / (SHARERS * ROWS_AHEAD), parts = busy < limit ? busy : limit;
    float *sums = (float *)scratch;
    const int64_t rows_of_part = parts < 2 ? rows : (rows + parts - 1) / parts;
    const dim3 grid((unsigned)((columns + CHUNKS * GROUP - 1) / (CHUNKS * GROUP)), (unsigned)parts);

    if (parts < 2 || columns % GROUP != 0)
        return cuda_column_sum(x, rows, columns, accumulate, sum, stream);
    if (x.type == TENSOR_BFLOAT16)
        long_column_sum_kernel<<<grid, BLOCK, 0, stream>>>((const __nv_bfloat16 *)x.at, rows,
                                                           columns, rows_of_part, sums);
    else if (x.type == TENSOR_FLOAT16)
        long_column_sum_kernel<<<grid, BLOCK, 0, stream>>>((const __half *)x.at, rows, columns,
                                                           rows_of_part, sums);
    else
        long_column_sum_kernel<<<grid, BLOCK, 0, stream>>>((const float *)x.at, rows, columns,
                                                           rows_of_part, sums);
    return cuda_column_sum(cuda_array{sums, TENSOR_FLOAT32}, parts, columns, accumulate, sum,
                           stream);
}

/* ---- filters ---- */

/* The sums of `count` rows of `channels` times `taps` columns each, which it transposes. */
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
