/* launch.cuh: shared by all kernels: the shape of launches, and sums within a block. */
#pragma once

#include "engine/backends/cuda/kernels/kernels.h"

constexpr int BLOCK = 256;

/* The blocks for `count` elements, with a thread each. Kernels loop if there are more elements. */
static inline unsigned blocks_for(int64_t count)
{
    int64_t blocks = (count + BLOCK - 1) / BLOCK;

    return blocks < 1 ? 1 : blocks > 65535 ? 65535 : (unsigned)blocks;
}

#define FOR_EACH_ELEMENT(i, count)                                                \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count); \
         i += (int64_t)gridDim.x * blockDim.x)

/* Whether the block is the last of `count` blocks to arrive at the counter, which is zero between
 * launches. If so, it sees what the others have written before. */
__device__ static inline bool arrives_last(unsigned *counter, unsigned count)
{
    __shared__ bool last;

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(counter, 1) == count - 1;
        if (last)
            *counter = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

/* The sum over the block's BLOCK threads, in a fixed order; every thread gets it. */
template <typename T> __device__ static inline T block_sum(T value)
{
    __shared__ T shared[BLOCK];

    __syncthreads(); /* other threads may still read the previous sum */
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
        if (threadIdx.x < distance)
            shared[threadIdx.x] += shared[threadIdx.x + distance];
        __syncthreads();
    }
    return shared[0];
}
