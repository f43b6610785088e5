/* batch_norm.cuh: shared by the implementations of batch normalisation. */
#pragma once

#include "engine/backends/cuda/kernels/values.cuh"

/* batch_norm_general.cu: for any shape and types, without fusion. */
cudaError_t norm_general_train(const struct cuda_batch_norm *norm, cudaStream_t stream);
cudaError_t norm_general_apply(const struct cuda_batch_norm *norm, bool running,
                               cudaStream_t stream);
cudaError_t norm_general_backward(const struct cuda_batch_norm *norm,
                                  const struct cuda_batch_norm_gradient *gradient,
                                  cudaStream_t stream);

/* batch_norm_whole.cu: in one launch, if cuda_batch_norm_can_be_whole(). */
cudaError_t norm_whole_train(const struct cuda_batch_norm *norm, cudaStream_t stream);
cudaError_t norm_whole_backward(const struct cuda_batch_norm *norm,
                                const struct cuda_batch_norm_gradient *gradient,
                                cudaStream_t stream);
