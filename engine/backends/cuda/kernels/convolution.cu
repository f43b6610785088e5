/* convolution.cu: what a convolution needs beside cuDNN: biases and their gradients, and gradients
 * of weights that cuDNN wrote in a type of 16 bits. */
#include "engine/backends/cuda/kernels/values.cuh"

/* ---- biases ---- */

__global__ void add_bias_kernel(struct cuda_array y, int64_t count, int64_t channels,
                                const float *bias)
{
    FOR_EACH_ELEMENT (i, count)
        array_store(y, i, array_load(y, i) + bias[i % channels]);
}

cudaError_t cuda_add_bias(struct cuda_array y, int64_t rows, int64_t channels, const float *bias,
                          cudaStream_t stream)
{
    add_bias_kernel<<<blocks_for(rows * channels), BLOCK, 0, stream>>>(y, rows * channels, channels,
                                                                       bias);
    return cudaGetLastError();
}

constexpr int COLUMNS = 32, LANES = BLOCK / COLUMNS;

/* Block (c, p) adds up the 32 channels from 32 c over the rows of part p. */
__global__ void channel_parts_kernel(struct cuda_array x, int64_t rows, int64_t channels,
                                     int64_t rows_of_part, float *parts)
{
    __shared__ float shared[LANES][COLUMNS];
    const int column = threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    const int64_t channel = (int64_t)blockIdx.x * COLUMNS + column;
    const int64_t first = (int64_t)blockIdx.y * rows_of_part;
    const int64_t end = first + rows_of_part < rows ? first + rows_of_part : rows;
    float total = 0;

    if (channel < channels)
        for (int64_t r = first + lane; r < end; r += LANES)
            total += array_load(x, r * channels + channel);
    shared[lane][column] = total;
    __syncthreads();
    if (lane > 0 || channel >= channels)
        return;
    for (int k = 1; k < LANES; k++)
        total += shared[k][column];
    parts[(int64_t)blockIdx.y * channels + channel] = total;
}

cudaError_t cuda_channel_sum(struct cuda_array x, int64_t rows, int64_t channels, bool accumulate,
                             float *sum, float *parts, cudaStream_t stream)
{
    int64_t rows_of_part = (rows + CUDA_CHANNEL_PARTS - 1) / CUDA_CHANNEL_PARTS;
    int64_t count;

    if (rows_of_part < 4 * LANES)
        rows_of_part = 4 * LANES;
    count = (rows + rows_of_part - 1) / rows_of_part;
    channel_parts_kernel<<<dim3((unsigned)((channels + COLUMNS - 1) / COLUMNS), (unsigned)count),
                           BLOCK, 0, stream>>>(x, rows, channels, rows_of_part, parts);
    return cuda_filter_total(parts, (int)count, (int)channels, 1, accumulate, sum, stream);
}

/* ---- gradients of weights ---- */

__global__ void add_gradient_kernel(struct cuda_array from, float *gradient, int64_t count,
                                    bool accumulate)
{
    const struct cuda_array to = {gradient, TENSOR_FLOAT32};

    FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
    {
        const int64_t first = g * GROUP;

        if (first + GROUP <= count) {
            struct group value = array_load_group(from, first);

            if (accumulate) {
                struct group before = array_load_group(to, first);

                for (int k = 0; k < GROUP; k++)
                    value.value[k] += before.value[k];
            }
            array_store_group(to, first, value);
        } else {
            for (int64_t i = first; i < count; i++)
                gradient[i] = array_load(from, i) + (accumulate ? gradient[i] : 0.0f);
        }
    }
}

cudaError_t cuda_add_gradient(struct cuda_array from, float *gradient, int64_t count,
                              bool accumulate, cudaStream_t stream)
{
    add_gradient_kernel<<<blocks_for((count + GROUP - 1) / GROUP), BLOCK, 0, stream>>>(
        from, gradient, count, accumulate);
    return cudaGetLastError();
}
