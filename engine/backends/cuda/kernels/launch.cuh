/* launch.cuh: shared by all kernels: the shape of launches, and sums within a block or a warp. */
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

constexpr int WARP_THREADS = 32;

/* The sum over the threads of a warp, in a fixed order; every one gets it. */
template <typename T> __device__ static inline T warp_sum(T value)
{
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    return value;
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

/* The sum over a row's threads, of which there are WARP_THREADS or BLOCK. */
template <int THREADS, typename T> __device__ static inline T row_sum(T value)
{
    static_assert(THREADS == WARP_THREADS || THREADS == BLOCK, "a row has a warp or a block");
    if constexpr (THREADS == WARP_THREADS)
        return warp_sum(value);
    else
        return block_sum(value);
}

/* Longer rows have a block each. */
constexpr int64_t WARP_COLUMNS_MAX = 512;

/* The blocks for so many rows, with a warp each. */
static inline unsigned blocks_for_warps(int64_t rows)
{
    return (unsigned)((rows + BLOCK / WARP_THREADS - 1) / (BLOCK / WARP_THREADS));
}
