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
