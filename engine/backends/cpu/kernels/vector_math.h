/* vector_math.h: exponential, error function and hyperbolic tangent as branch-free scalar code that
 * the compiler vectorises. For NaN the result is NaN. */
#pragma once

#include <stdint.h>

/* The parts of Cephes' expf, of a number or of a register of them: x = n ln 2 + r, where n is x
 * times log2 e rounded, and ln 2 is split in two; then a polynomial, whose value p is e^r. */
#define EXP_LOG2_E 1.44269504f
#define EXP_REMAINDER(x, n) (((x) - (n)*0.693359375f) + (n)*2.12194440e-4f)
#define EXP_POLYNOMIAL(p, r)                         \
    do {                                             \
        p = (r)*1.9875691500e-4f + 1.3981999507e-3f; \
        p = p * (r) + 8.3334519073e-3f;              \
        p = p * (r) + 4.1665795894e-2f;              \
        p = p * (r) + 1.6666665459e-1f;              \
        p = p * (r) + 5.0000001201e-1f;              \
        p = p * (r) * (r) + (r) + 1.0f;              \
    } while (0)

/* e^x, with a relative error below 2e-7, as Cephes' expf: n is added to the exponent of e^r. Below
 * -87.3 the result is 0, above 88.7 it stays near FLT_MAX. */
static inline float vector_exp(float x)
{
    const float round =
        12582912.0f; /* 1.5 · 2^23: adding it leaves the rounded integer in the low bits */
    float clamped = x > 88.7f ? 88.7f : x;

    clamped = clamped < -87.3f ? -87.3f : clamped;

    union {
        float value;
        int32_t bits;
    } shifted = {clamped * EXP_LOG2_E + round}, power;
    float n = shifted.value - round;
    float r = EXP_REMAINDER(clamped, n);
    float p;

    EXP_POLYNOMIAL(p, r);
    power.bits = (int32_t)((uint32_t)(shifted.bits - 0x4B400000 + 127) << 23);
    return x < -87.3f ? 0.0f : p * power.value;
}

static inline float vector_sigmoid(float x)
{
    return 1.0f / (1.0f + vector_exp(-x));
}

/* min(max(x + 3, 0), 6) / 6 */
static inline float vector_hard_sigmoid(float x)
{
    float shifted = x + 3.0f;

    shifted = shifted < 0.0f ? 0.0f : shifted;
    return (shifted > 6.0f ? 6.0f : shifted) * (1.0f / 6.0f);
}

static inline float vector_silu(float x)
{
    return x * vector_sigmoid(x);
}

static inline float vector_silu_slope(float x)
{
    float s = vector_sigmoid(x);

    return s * (1.0f + x * (1.0f - s));
}

static inline float vector_hardswish(float x)
{
    return x * vector_hard_sigmoid(x);
}

/* 0 at -3 and below, 1 at 3 and above, as PyTorch has it */
static inline float vector_hardswish_slope(float x)
{
    float slope = x * (1.0f / 3.0f) + 0.5f;

    slope = x <= -3.0f ? 0.0f : slope;
    return x >= 3.0f ? 1.0f : slope;
}

/* Cephes' tanhf: a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose digits. */
static inline float vector_tanh(float x)
{
    float square = x * x;
    float p = -5.70498872745e-3f;

    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;

    float near = p * square * x + x;
    float far = 1.0f - 2.0f / (vector_exp(2.0f * x) + 1.0f);

    return square < 0.390625f ? near : far;
}

/* erf(x), relative error below 1e-6: the rational approximation of Eigen
 * (generic_fast_erf_float), exact to rounding at ±1 beyond |x| = 4. */
static inline float vector_erf(float x)
{
    float c = x > 4.0f ? 4.0f : x;

    c = c < -4.0f ? -4.0f : c;

    float square = c * c;
    float p = -2.72614225801306e-10f;
    float q = -1.45660718464996e-05f;

    p = p * square + 2.77068142495902e-08f;
    p = p * square - 2.10102402082508e-06f;
    p = p * square - 5.69250639462346e-05f;
    p = p * square - 7.34990630326855e-04f;
    p = p * square - 2.95459980854025e-03f;
    p = p * square - 1.60960333262415e-02f;
    q = q * square - 2.13374055278905e-04f;
    q = q * square - 1.68282697438203e-03f;
    q = q * square - 7.37332916720468e-03f;
    q = q * square - 1.42647390514189e-02f;
    return c * p / q;
}

/* The normal distribution's Φ(x) = (1 + erf(x / √2)) / 2 and density φ(x). */
static inline float vector_normal_distribution(float x)
{
    return 0.5f + 0.5f * vector_erf(x * 0.70710678118654752f);
}

static inline float vector_normal_density(float x)
{
    return 0.39894228040143268f * vector_exp(-0.5f * x * x);
}

/* e^x - 1 for x <= 0, relative error below 1e-6. Near 0, where the difference would lose digits, it
 * is the polynomial of e^x without its last term. */
static inline float vector_expm1(float x)
{
    float p = x * 1.9875691500e-4f + 1.3981999507e-3f;

    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    return x > -0.34f ? p * x * x + x : vector_exp(x) - 1.0f;
}

/* log(1 + e^x), relative error below 1e-6: max(x, 0) + log(1 + e^-|x|), the logarithm by the series
 * 2 (s + s^3 / 3 + s^5 / 5 + …) of s = e / (2 + e), where e = e^-|x| and s at most 1/3. */
static inline float vector_softplus(float x)
{
    float positive = x < 0.0f ? 0.0f : x;
    float e = vector_exp(x - positive - positive);
    float s = e / (2.0f + e), square = s * s;
    float p = 1.0f / 17.0f;

    p = p * square + 1.0f / 15.0f;
    p = p * square + 1.0f / 13.0f;
    p = p * square + 1.0f / 11.0f;
    p = p * square + 1.0f / 9.0f;
    p = p * square + 1.0f / 7.0f;
    p = p * square + 1.0f / 5.0f;
    p = p * square + 1.0f / 3.0f;
    return positive + 2.0f * (p * square * s + s);
}

/* tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2); 1 from 20 on, where n would overflow. */
static inline float vector_mish(float x)
{
    float e = vector_exp(x > 20.0f ? 20.0f : x);
    float n = e * (e + 2.0f);

    return x * (n / (n + 2.0f));
}

/* t + x (1 - t^2) sigmoid(x) with t = n / (n + 2); sigmoid(x) = e / (1 + e), 1 + n = (1 + e)^2. */
static inline float vector_mish_slope(float x)
{
    float c = x > 20.0f ? 20.0f : x;
    float e = vector_exp(c);
    float n = e * (e + 2.0f), inverse = 1.0f / (n + 2.0f);

    return n * inverse + c * 4.0f * e * (1.0f + e) * inverse * inverse;
}

/* GELU with tanh is x (1 + tanh(u)) / 2 = x sigmoid(2u): this is 2u. */
static inline float vector_gelu_tanh_argument(float x)
{
    return 1.59576912160573071f * x * (1.0f + 0.044715f * x * x);
}

static inline float vector_gelu_tanh_slope(float x)
{
    float c = x > 8.0f ? 8.0f : x; /* beyond, the slope is 0 or 1, and products might overflow */

    c = c < -8.0f ? -8.0f : c;

    float e = vector_exp(-vector_gelu_tanh_argument(c));
    float s = 1.0f / (1.0f + e);
    float slope = 1.59576912160573071f * (1.0f + 3.0f * 0.044715f * c * c);

    return s + c * (e * s) * s * slope; /* e s is 1 - s, without the loss of digits */
}
