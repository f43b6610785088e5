/* activations.cuh: activations and their derivatives. */
#pragma once

#include "engine/backends/cuda/kernels/values.cuh"
#include "engine/graph/graph.h"

/* exp(-x^2 / 2), of which GELU and its derivative make the normal distribution and density. */
__device__ static inline float normal_exponential(float x)
{
    return power_of_two(-0.5f * LOG2_E * x * x);
}

/* The tail is a polynomial times the exponential (Abramowitz and Stegun, 7.1.26), with an error of
 * 7.5e-8. With erff(), GELU took longer than the memory that it reads. */
__device__ static inline float normal_distribution(float x, float exponential)
{
    const float t = __fdividef(1.0f, 1.0f + 0.3275911f * 0.70710678118654752440f * fabsf(x));
    const float polynomial =
        ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
         0.254829592f) *
        t;
    const float tail = 0.5f * polynomial * exponential;

    return x < 0.0f ? tail : 1.0f - tail;
}

/* Uses the fast exponential and division, with an error of 2 units in the last place each. With the
 * exact ones, the passes of batch norm with SiLU took twice as long as the memory that they
 * read. */
__device__ static inline float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

__device__ static inline float hard_sigmoid(float x)
{
    return fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
}

/* GELU with tanh is x sigmoid of this. */
__device__ static inline float gelu_tanh_argument(float x)
{
    return 1.59576912160573071f * x * (1.0f + 0.044715f * x * x);
}

template <int kind> __device__ static inline float activate(float x)
{
    switch (kind) {
    case ACTIVATION_RELU: /* this form keeps a NaN, as PyTorch does */
        return x < 0.0f ? 0.0f : x;
    case ACTIVATION_SILU:
        return x * sigmoid(x);
    case ACTIVATION_GELU:
        return x * normal_distribution(x, normal_exponential(x));
    case ACTIVATION_TANH:
        return tanhf(x);
    case ACTIVATION_SIGMOID:
        return sigmoid(x);
    case ACTIVATION_HARDSWISH:
        return x * hard_sigmoid(x);
    case ACTIVATION_RELU6:
        return x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x;
    case ACTIVATION_GELU_TANH:
        return x * sigmoid(gelu_tanh_argument(x));
    case ACTIVATION_MISH: {
        const float e = __expf(fminf(x, 20.0f)), n = e * (e + 2.0f);
        return x * __fdividef(n, n + 2.0f);
    }
    case ACTIVATION_SOFTPLUS:
        return (x < 0.0f ? 0.0f : x) + log1pf(__expf(-fabsf(x)));
    default:
        return hard_sigmoid(x);
    }
}

/* The derivative, given what the operator saves: the result, or the operand (OP_ACTIVATION_BACKWARD
 * says which). */
template <int kind> __device__ static inline float activate_backward(float dy, float s)
{
    switch (kind) {
    case ACTIVATION_RELU:
        return s > 0.0f ? dy : 0.0f;
    case ACTIVATION_SILU: {
        float g = sigmoid(s);
        return dy * g * (1.0f + s * (1.0f - g));
    }
    case ACTIVATION_GELU: {
        const float e = normal_exponential(s);
        return dy * (normal_distribution(s, e) + s * 0.39894228040143267794f * e);
    }
    case ACTIVATION_TANH:
        return dy * (1.0f - s * s);
    case ACTIVATION_SIGMOID:
        return dy * s * (1.0f - s);
    case ACTIVATION_HARDSWISH:
        return s <= -3.0f ? 0.0f : s >= 3.0f ? dy : dy * (s * (1.0f / 3.0f) + 0.5f);
    case ACTIVATION_RELU6:
        return s > 0.0f && s < 6.0f ? dy : 0.0f;
    case ACTIVATION_GELU_TANH: {
        const float c = fminf(fmaxf(s, -20.0f), 20.0f), g = sigmoid(gelu_tanh_argument(c));
        return dy *
               (g + c * g * (1.0f - g) * 1.59576912160573071f * (1.0f + 3.0f * 0.044715f * c * c));
    }
    case ACTIVATION_MISH: {
        const float c = fminf(s, 20.0f), e = __expf(c), n = e * (e + 2.0f);
        const float inverse = __fdividef(1.0f, n + 2.0f);
        return dy * (n * inverse + c * 4.0f * e * (1.0f + e) * inverse * inverse);
    }
    case ACTIVATION_SOFTPLUS:
        return dy * sigmoid(s);
    default:
        return s > 0.0f && s < 1.0f ? dy * (1.0f / 6.0f) : 0.0f;
    }
}

#define EVERY_ACTIVATION(DO)   \
    DO(ACTIVATION_RELU)        \
    DO(ACTIVATION_SILU)        \
    DO(ACTIVATION_GELU)        \
    DO(ACTIVATION_TANH)        \
    DO(ACTIVATION_SIGMOID)     \
    DO(ACTIVATION_HARDSWISH)   \
    DO(ACTIVATION_HARDSIGMOID) \
    DO(ACTIVATION_RELU6)       \
    DO(ACTIVATION_GELU_TANH)   \
    DO(ACTIVATION_MISH)        \
    DO(ACTIVATION_SOFTPLUS)

/* An activation whose kind the launch gives; kind < 0: none. */
__device__ static inline float activate_any(int kind, float x)
{
    switch (kind) {
#define DO(name) \
    case name:   \
        return activate<name>(x);
        EVERY_ACTIVATION(DO)
#undef DO
    default:
        return x;
    }
}

__device__ static inline float activate_backward_any(int kind, float dy, float saved)
{
    switch (kind) {
#define DO(name) \
    case name:   \
        return activate_backward<name>(dy, saved);
        EVERY_ACTIVATION(DO)
#undef DO
    default:
        return dy;
    }
}
