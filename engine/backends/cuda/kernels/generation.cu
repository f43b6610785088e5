/* generation.cu: for which generation of GPUs the kernels were compiled. Those for a newer one are
 * compiled from the plugin's newest PTX when they are loaded, and have its instructions alone: what
 * stands behind `#if __CUDA_ARCH__ >= ...` may be missing on a device that could do it. */
#include "engine/backends/cuda/kernels/launch.cuh"

__global__ void generation_kernel()
{
}

cudaError_t cuda_code_major(int *major)
{
    struct cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, (const void *)generation_kernel);

    *major = status == cudaSuccess ? attributes.ptxVersion / 10 : 0;
    return status;
}
