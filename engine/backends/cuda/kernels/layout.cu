/* layout.cu: converts tensors between PyTorch's order and channels-last, and between stored types:
 * batches that arrive, weights that are read and written, images that become rows. */
#include "engine/backends/cuda/kernels/values.cuh"

/* The index of canonical element i in a channels-last tensor. */
template <typename Index>
__device__ static inline Index place(Index i, Index channels, Index pixels)
{
    Index row = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;

    return (row * pixels + p) * channels + c;
}

/* Threads follow the order that is written: `first` is then an index in that order, too. */
template <typename Index>
__global__ void store_all_kernel(Index channels, Index pixels, struct cuda_array canonical,
                                 struct cuda_array stored, Index count)
{
    FOR_EACH_ELEMENT(i, count) /* the inverse of channels-last exchanges pixels and channels */
    array_store(stored, i, array_load(canonical, place((Index)i, pixels, channels)));
}

template <typename Index>
__global__ void store_kernel(Index channels, Index pixels, struct cuda_array canonical,
                             struct cuda_array stored, Index first, Index count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(stored, place(first + (Index)i, channels, pixels), array_load(canonical, i));
}

template <typename Index>
__global__ void load_kernel(Index channels, Index pixels, struct cuda_array stored,
                            struct cuda_array canonical, Index first, Index count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(canonical, i, array_load(stored, place(first + (Index)i, channels, pixels)));
}

/* Divisions of 32-bit integers are several times faster. */
static bool is_short(int64_t first, int64_t count)
{
    return first + count <= INT32_MAX;
}

cudaError_t cuda_layout_store(struct cuda_layout layout, struct cuda_array canonical,
                              struct cuda_array stored, int64_t first, int64_t count,
                              cudaStream_t stream)
{
    const int64_t c = layout.channels, p = layout.pixels;
    const bool whole = first == 0 && count % (c * p) == 0;

    if (whole && is_short(first, count))
        store_all_kernel<int32_t><<<blocks_for(count), BLOCK, 0, stream>>>(
            (int32_t)c, (int32_t)p, canonical, stored, (int32_t)count);
    else if (is_short(first, count))
        store_kernel<int32_t><<<blocks_for(count), BLOCK, 0, stream>>>(
            (int32_t)c, (int32_t)p, canonical, stored, (int32_t)first, (int32_t)count);
    else
        store_kernel<int64_t>
            <<<blocks_for(count), BLOCK, 0, stream>>>(c, p, canonical, stored, first, count);
    return cudaGetLastError();
}

cudaError_t cuda_layout_load(struct cuda_layout layout, struct cuda_array stored,
                             struct cuda_array canonical, int64_t first, int64_t count,
                             cudaStream_t stream)
{
    const int64_t c = layout.channels, p = layout.pixels;

    if (is_short(first, count))
        load_kernel<int32_t><<<blocks_for(count), BLOCK, 0, stream>>>(
            (int32_t)c, (int32_t)p, stored, canonical, (int32_t)first, (int32_t)count);
    else
        load_kernel<int64_t>
            <<<blocks_for(count), BLOCK, 0, stream>>>(c, p, stored, canonical, first, count);
    return cudaGetLastError();
}
