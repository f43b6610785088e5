/* batch_norm_general.cu: batch normalisation for any shape: a block for each channel, and two
 * passes for the moments. It is used where batch_norm.cu does not apply. */
#include "engine/backends/cuda/kernels/batch_norm.cuh"

#include <math.h>

/* The index of element i (of rows x pixels) of the block's channel. */
__device__ static inline int64_t place(const struct cuda_batch_norm *n, int64_t i)
{
    return (i / n->pixels * n->channels + blockIdx.x) * n->pixels + i % n->pixels;
}

__device__ static void normalise(const struct cuda_batch_norm *n, float mean, float inverse_std)
{
    const float factor = inverse_std * n->weight[blockIdx.x];
    const float offset = n->bias ? n->bias[blockIdx.x] - mean * factor : 0;

    for (int64_t i = threadIdx.x; i < n->rows * n->pixels; i += BLOCK) {
        int64_t at = place(n, i);

        array_store(n->y, at, array_load(n->x, at) * factor + offset);
    }
}

__global__ void general_train_kernel(struct cuda_batch_norm n)
{
    const int64_t count = n.rows * n.pixels;
    double sum = 0, squares = 0, mean, variance;
    float inverse_std;

    for (int64_t i = threadIdx.x; i < count; i += BLOCK)
        sum += array_load(n.x, place(&n, i));
    mean = block_sum(sum) / (double)count;
    for (int64_t i = threadIdx.x; i < count; i += BLOCK) {
        double difference = array_load(n.x, place(&n, i)) - mean;

        squares += difference * difference;
    }
    squares = block_sum(squares);
    variance = squares / (double)count;
    inverse_std = (float)(1.0 / sqrt(variance + (double)n.epsilon));
    if (threadIdx.x == 0) {
        n.mean[blockIdx.x] = (float)mean;
        n.inverse_std[blockIdx.x] = inverse_std;
        if (n.running_mean) {
            double momentum = n.momentum;

            n.running_mean[blockIdx.x] =
                (float)((1 - momentum) * n.running_mean[blockIdx.x] + momentum * mean);
            n.running_variance[blockIdx.x] =
                (float)((1 - momentum) * n.running_variance[blockIdx.x] +
                        momentum * squares / (double)(count - 1));
        }
    }
    normalise(&n, (float)mean, inverse_std);
}

cudaError_t norm_general_train(const struct cuda_batch_norm *norm, cudaStream_t stream)
{
    general_train_kernel<<<(unsigned)norm->channels, BLOCK, 0, stream>>>(*norm);
    return cudaGetLastError();
}

__global__ void general_apply_kernel(struct cuda_batch_norm n, bool running)
{
    if (running)
        normalise(&n, n.bias ? n.running_mean[blockIdx.x] : 0,
                  1.0f / sqrtf(n.running_variance[blockIdx.x] + n.epsilon));
    else
        normalise(&n, n.mean[blockIdx.x], n.inverse_std[blockIdx.x]);
}

cudaError_t norm_general_apply(const struct cuda_batch_norm *norm, bool running,
                               cudaStream_t stream)
{
    general_apply_kernel<<<(unsigned)norm->channels, BLOCK, 0, stream>>>(*norm, running);
    return cudaGetLastError();
}

/* dx = weight inverse_std (dy - mean(dy) - x^ mean(dy x^)), where x^ is the normalised x. */
__global__ void general_backward_kernel(struct cuda_batch_norm n, struct cuda_array dy,
                                        struct cuda_array dx, float *dweight, float *dbias,
                                        bool accumulate)
{
    const int64_t count = n.rows * n.pixels;
    const float mean = n.mean[blockIdx.x], inverse_std = n.inverse_std[blockIdx.x];
    const float factor = n.weight[blockIdx.x] * inverse_std;
    double sum = 0, product = 0;
    float by_count, by_hat;

    for (int64_t i = threadIdx.x; i < count; i += BLOCK) {
        int64_t at = place(&n, i);

        float d = array_load(dy, at);

        sum += d;
        product += (double)d * ((array_load(n.x, at) - mean) * inverse_std);
    }
    sum = block_sum(sum);
    product = block_sum(product);
    if (threadIdx.x == 0) {
        dweight[blockIdx.x] = (float)product + (accumulate ? dweight[blockIdx.x] : 0.0f);
        dbias[blockIdx.x] = (float)sum + (accumulate ? dbias[blockIdx.x] : 0.0f);
    }
    by_count = (float)(sum / (double)count);
    by_hat = (float)(product / (double)count);
    for (int64_t i = threadIdx.x; i < count; i += BLOCK) {
        int64_t at = place(&n, i);
        float hat = (array_load(n.x, at) - mean) * inverse_std;

        array_store(dx, at, factor * (array_load(dy, at) - by_count - hat * by_hat));
    }
}

cudaError_t norm_general_backward(const struct cuda_batch_norm *norm,
                                  const struct cuda_batch_norm_gradient *g, cudaStream_t stream)
{
    general_backward_kernel<<<(unsigned)norm->channels, BLOCK, 0, stream>>>(
        *norm, g->dy, g->dx, g->dweight, g->dbias, g->accumulate);
    return cudaGetLastError();
}
