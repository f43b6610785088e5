/* batch_norm.cuh: what the two ways of batch normalisation share. */
#pragma once

#include "engine/backends/cuda/kernels/values.cuh"

/* batch_norm_general.cu: any shape and types, nothing fused. */
cudaError_t norm_general_train(const struct cuda_batch_norm *norm, cudaStream_t stream);
cudaError_t norm_general_apply(const struct cuda_batch_norm *norm, bool running,
                               cudaStream_t stream);
cudaError_t norm_general_backward(const struct cuda_batch_norm *norm,
                                  const struct cuda_batch_norm_gradient *gradient,
                                  cudaStream_t stream);

/* y = x factor + offset, of GROUP channels from c on: by the moments of the batch, or by the running
 * ones. */
__device__ static inline struct group norm_factor(const struct cuda_batch_norm &n, int64_t c,
                                                  bool running)
{
    struct group factor = group_load(n.weight + c);
    const struct group spread = group_load(running ? n.running_variance + c : n.inverse_std + c);

#pragma unroll
    for (int k = 0; k < GROUP; k++)
        factor.value[k] *= running ? 1.0f / sqrtf(spread.value[k] + n.epsilon) : spread.value[k];
    return factor;
}

__device__ static inline struct group norm_offset(const struct cuda_batch_norm &n, int64_t c,
                                                  bool running, const struct group &factor)
{
    struct group offset = group_load(n.bias + c);
    const struct group mean = group_load(running ? n.running_mean + c : n.mean + c);

#pragma unroll
    for (int k = 0; k < GROUP; k++)
        offset.value[k] -= mean.value[k] * factor.value[k];
    return offset;
}
