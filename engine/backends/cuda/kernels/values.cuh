/* values.cuh: loads and stores numbers of device memory in the types of tensors (struct
 * cuda_array), as float32 in registers: one at a time, or eight adjacent ones by accesses of 16
 * bytes. In a launch, each operand has one type, so the threads of a warp never diverge over it. */
#pragma once

#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/graph/graph.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int GROUP = 8; /* values that a thread takes at a time */

struct group {
    float value[GROUP];
};

__device__ static inline float to_float(float x)
{
    return x;
}
__device__ static inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ static inline float to_float(__half x)
{
    return __half2float(x);
}

/* Rounds to the nearest, ties to even; beyond the range to infinity. */
template <typename T> __device__ static inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline __half from_float<__half>(float x)
{
    return __float2half_rn(x);
}

/* x as a number of the type holds it. */
__device__ static inline float rounded_to(int type, float x)
{
    switch (type) {
    case TENSOR_BFLOAT16:
        return to_float(from_float<__nv_bfloat16>(x));
    case TENSOR_FLOAT16:
        return to_float(from_float<__half>(x));
    default:
        return x;
    }
}

/* Eight numbers as they are stored, so that several loads can be started before the first is
 * used. */
template <typename T> union packed {
    static constexpr int WORDS = GROUP * sizeof(T) / 16;
    uint4 word[WORDS];
    T value[GROUP];
    __device__ packed()
    {
    }
};

/* Here and below, `p` is aligned to GROUP elements. */
template <typename T> __device__ static inline void packed_load(union packed<T> *raw, const T *p)
{
#pragma unroll
    for (int k = 0; k < packed<T>::WORDS; k++)
        raw->word[k] = ((const uint4 *)p)[k];
}

template <typename T> __device__ static inline struct group group_load(const T *p)
{
    union packed<T> raw;
    struct group g;

    packed_load(&raw, p);
#pragma unroll
    for (int k = 0; k < GROUP; k++)
        g.value[k] = to_float(raw.value[k]);
    return g;
}

template <typename T> __device__ static inline void group_store(T *p, const struct group &g)
{
    union packed<T> raw;

#pragma unroll
    for (int k = 0; k < GROUP; k++)
        raw.value[k] = from_float<T>(g.value[k]);
#pragma unroll
    for (int k = 0; k < packed<T>::WORDS; k++)
        ((uint4 *)p)[k] = raw.word[k];
}

constexpr int QUAD = 4;

/* Four numbers in memory, at a multiple of four: one access. */
template <typename T> struct alignas(QUAD * sizeof(T)) quad {
    T number[QUAD];
};

constexpr float LOG2_E = 1.44269504088896340736f;

/* 2^x with an error of 2 units in the last place; 0 where that is below the normal numbers. */
__device__ static inline float power_of_two(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- of a type that the launch gives ---- */

__device__ static inline float array_load(const struct cuda_array &a, int64_t i)
{
    switch (a.type) {
    case TENSOR_BFLOAT16:
        return to_float(((const __nv_bfloat16 *)a.at)[i]);
    case TENSOR_FLOAT16:
        return to_float(((const __half *)a.at)[i]);
    default:
        return ((const float *)a.at)[i];
    }
}

__device__ static inline void array_store(const struct cuda_array &a, int64_t i, float x)
{
    switch (a.type) {
    case TENSOR_BFLOAT16:
        ((__nv_bfloat16 *)a.at)[i] = from_float<__nv_bfloat16>(x);
        break;
    case TENSOR_FLOAT16:
        ((__half *)a.at)[i] = from_float<__half>(x);
        break;
    default:
        ((float *)a.at)[i] = x;
    }
}

/* Loads eight numbers from element i on, a multiple of GROUP. */
__device__ static inline struct group array_load_group(const struct cuda_array &a, int64_t i)
{
    switch (a.type) {
    case TENSOR_BFLOAT16:
        return group_load((const __nv_bfloat16 *)a.at + i);
    case TENSOR_FLOAT16:
        return group_load((const __half *)a.at + i);
    default:
        return group_load((const float *)a.at + i);
    }
}

__device__ static inline void array_store_group(const struct cuda_array &a, int64_t i,
                                                const struct group &g)
{
    switch (a.type) {
    case TENSOR_BFLOAT16:
        group_store((__nv_bfloat16 *)a.at + i, g);
        break;
    case TENSOR_FLOAT16:
        group_store((__half *)a.at + i, g);
        break;
    default:
        group_store((float *)a.at + i, g);
    }
}

/* ---- of a type that the kernel is compiled for ---- */

/* A kernel whose arrays are all of type T is compiled for them: without a choice of the type at
 * every access, the loads of a loop are under way at the same time. */
template <typename T> struct typed_array {
    T *at;
};

template <typename T> static inline struct typed_array<T> typed(const struct cuda_array &a) {
    return {(T *)a.at};
}

/* Whether all of the arrays that have an address are of that type. */
template <typename... Arrays>
static inline bool are_all(int type, const Arrays &...arrays)
{
    return ((!arrays.at || arrays.type == type) && ...);
}

/* ---- several side by side, as many as the launch has ---- */

/* WIDTH numbers in memory, at a multiple of as many: one access. */
template <typename T, int WIDTH> struct alignas(WIDTH * sizeof(T)) strip {
    T number[WIDTH];
};

template <int WIDTH, typename T>
__device__ static inline void load(const struct typed_array<T> &a, int64_t at,
                                   float (&value)[WIDTH])
{
    if constexpr (WIDTH == GROUP) {
        const struct group g = group_load((const T *)a.at + at);

#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            value[k] = g.value[k];
    } else {
        const struct strip<T, WIDTH> numbers = *(const struct strip<T, WIDTH> *)(a.at + at);

#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            value[k] = to_float(numbers.number[k]);
    }
}

template <int WIDTH, typename T>
__device__ static inline void store(const struct typed_array<T> &a, int64_t at,
                                    const float (&value)[WIDTH])
{
    if constexpr (WIDTH == GROUP) {
        struct group g;

#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            g.value[k] = value[k];
        group_store(a.at + at, g);
    } else {
        struct strip<T, WIDTH> numbers;

#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            numbers.number[k] = from_float<T>(value[k]);
        *(struct strip<T, WIDTH> *)(a.at + at) = numbers;
    }
}

template <int WIDTH>
__device__ static inline void load(const struct cuda_array &a, int64_t at, float (&value)[WIDTH])
{
    switch (a.type) {
    case TENSOR_BFLOAT16:
        load(typed_array<__nv_bfloat16>{(__nv_bfloat16 *)a.at}, at, value);
        break;
    case TENSOR_FLOAT16:
        load(typed_array<__half>{(__half *)a.at}, at, value);
        break;
    default:
        load(typed_array<float>{(float *)a.at}, at, value);
    }
}

template <int WIDTH>
__device__ static inline void store(const struct cuda_array &a, int64_t at,
                                    const float (&value)[WIDTH])
{
    switch (a.type) {
    case TENSOR_BFLOAT16:
        store(typed_array<__nv_bfloat16>{(__nv_bfloat16 *)a.at}, at, value);
        break;
    case TENSOR_FLOAT16:
        store(typed_array<__half>{(__half *)a.at}, at, value);
        break;
    default:
        store(typed_array<float>{(float *)a.at}, at, value);
    }
}
