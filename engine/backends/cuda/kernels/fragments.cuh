/* fragments.cuh: products of two fragments of 16 bits by tensor cores, for kernels whose warps keep
 * both operands and the sum in registers. They need compute capability 8.0 or above. */
#pragma once

#include "engine/backends/cuda/kernels/values.cuh"

template <typename T> struct fragment_bits;
template <> struct fragment_bits<__nv_bfloat16> {
    __device__ static inline uint32_t of(float x)
    {
        return __bfloat16_as_ushort(__float2bfloat16_rn(x));
    }
};
template <> struct fragment_bits<__half> {
    __device__ static inline uint32_t of(float x)
    {
        return __half_as_ushort(__float2half_rn(x));
    }
};

template <typename T> __device__ static inline uint32_t fragment_pack(float low, float high)
{
    return fragment_bits<T>::of(low) | fragment_bits<T>::of(high) << 16;
}

/* sum += a b, for 16 x 8 x 16 numbers: PTX ISA, "Matrix multiply-accumulate instruction using
 * mma". With g = lane / 4 and t = lane % 4, a thread has of `a` rows g and g + 8, of `b` column g,
 * and of `sum` columns 2 t and the next. */
template <typename T>
__device__ static inline void fragment_multiply(float *sum, const uint32_t *a, uint32_t b0,
                                                uint32_t b1);
#if __CUDA_ARCH__ >= 800
#define MULTIPLY(type)                                                 \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 " \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"        \
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])       \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#else
#define MULTIPLY(type) (void)sum, (void)a, (void)b0, (void)b1
#endif
template <>
__device__ inline void fragment_multiply<__nv_bfloat16>(float *sum, const uint32_t *a, uint32_t b0,
                                                        uint32_t b1)
{
    MULTIPLY("bf16");
}
template <>
__device__ inline void fragment_multiply<__half>(float *sum, const uint32_t *a, uint32_t b0,
                                                 uint32_t b1)
{
    MULTIPLY("f16");
}
#undef MULTIPLY
