/* vector_lanes.h: one register of floats from and to memory, also where a tensor ends within it,
 * and exponentials of a register. The formulas are those of vector_math.h. */
#pragma once

#include "engine/backends/cpu/kernels/vector.h"
#include "engine/backends/cpu/kernels/vector_math.h"

#include <stdint.h>
#include <string.h>

/* All functions are inlined, so that no register is passed to one. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef int32_t vector_bits __attribute__((vector_size(VECTOR * 4), may_alias));

/* The first `width` lanes from memory, the others zero. */
static ALWAYS_INLINE vector lanes_load(const float *from, int width)
{
    vector value = {0};

    if (width == VECTOR)
        memcpy(&value, from, sizeof value);
    else
        for (int i = 0; i < width; i++)
            value[i] = from[i];
    return value;
}

static ALWAYS_INLINE void lanes_store(float *to, vector value, int width)
{
    if (width == VECTOR)
        memcpy(to, &value, sizeof value);
    else
        for (int i = 0; i < width; i++)
            to[i] = value[i];
}

/* The sum of all lanes, added four at a time. */
static ALWAYS_INLINE float lanes_sum(vector value)
{
    typedef float four __attribute__((vector_size(16)));
    four part[VECTOR / 4], sum;

    memcpy(part, &value, sizeof part);
    sum = part[0];
    for (int i = 1; i < VECTOR / 4; i++)
        sum += part[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static ALWAYS_INLINE vector lanes_select(vector_bits mask, vector yes, vector no)
{
    return (vector)(((vector_bits)yes & mask) | ((vector_bits)no & ~mask));
}

/* e^x: vector_exp(). Below -87.3 it stays near 1e-38; from 88.4 on it is infinite, for NaN too. */
static ALWAYS_INLINE vector lanes_exp(vector x)
{
    const vector round = (vector){0} + 12582912.0f;
    const vector high = (vector){0} + 88.7f, low = (vector){0} - 87.3f;
    vector clamped = lanes_select(x < high, x, high);

    clamped = lanes_select(clamped > low, clamped, low);

    vector shifted = clamped * EXP_LOG2_E + round;
    vector n = shifted - round;
    vector r = EXP_REMAINDER(clamped, n), p;

    EXP_POLYNOMIAL(p, r);
    return p * (vector)(((vector_bits)shifted - (0x4B400000 - 127)) << 23);
}

static ALWAYS_INLINE vector lanes_sigmoid(vector x)
{
    return 1.0f / (1.0f + lanes_exp(-x));
}

/* log(1 + e^x), relative error below 1e-6: max(x, 0) + log(1 + e^-|x|), the logarithm by the series
 * 2 (s + s^3 / 3 + s^5 / 5 + …) of s = e / (2 + e), where e = e^-|x| and s at most 1/3. */
static ALWAYS_INLINE vector lanes_softplus(vector x)
{
    const vector zero = {0};
    vector positive = lanes_select(x > zero, x, zero);
    vector e = lanes_exp(x - positive - positive);
    vector s = e / (2.0f + e), square = s * s;
    vector p = zero + 1.0f / 17.0f;

    p = p * square + 1.0f / 15.0f;
    p = p * square + 1.0f / 13.0f;
    p = p * square + 1.0f / 11.0f;
    p = p * square + 1.0f / 9.0f;
    p = p * square + 1.0f / 7.0f;
    p = p * square + 1.0f / 5.0f;
    p = p * square + 1.0f / 3.0f;
    return positive + 2.0f * (p * square * s + s);
}
