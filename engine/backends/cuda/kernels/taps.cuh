/* taps.cuh: which result of a convolution a tap of its filter belongs to. */
#pragma once

/* The result whose tap k read pixel i, along one axis; -1: there is none. */
__device__ static inline int result_of(int i, int k, int padding, int dilation, int stride,
                                       int results)
{
    const int scaled = i + padding - k * dilation;
    const int result = stride == 1 ? scaled : stride == 2 ? scaled >> 1 : scaled / stride;

    return scaled < 0 || result * stride != scaled || result >= results ? -1 : result;
}
