/* precision.c: rounds to the smaller floating-point types: to the nearest, ties to even, as IEEE
 * 754 defines it for binary16 and as processors convert to bfloat16. It uses integer operations, so
 * that every level gives the same result and the compiler vectorises it. */
#include "engine/backends/cpu/kernels/kernels.h"

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;

    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds off the low `dropped` bits of the mantissa of x. A carry goes into the exponent, up to
 * infinity. x must not be NaN. */
static inline uint32_t round_mantissa(uint32_t bits, int dropped)
{
    uint32_t half = 1u << (dropped - 1), odd = bits >> dropped & 1;

    return (bits + half - 1 + odd) & ~((1u << dropped) - 1);
}

enum { BFLOAT16_DROPPED = 16, FLOAT16_DROPPED = 13 };

static inline float round_bfloat16(float x)
{
    uint32_t rounded = round_mantissa(bits_of(x), BFLOAT16_DROPPED);

    return x == x ? float_of(rounded) : x;
}

/* Rounds to binary16. 65520 and above become infinity. Numbers below 2^-14 are 2^-24 apart, as
 * float32 numbers between 0.5 and 1 are, so that adding 0.5 rounds them. */
static inline float round_float16(float x)
{
    uint32_t sign = bits_of(x) & 0x80000000u, bits = bits_of(x) & 0x7fffffffu;
    float size = float_of(bits), normal = float_of(round_mantissa(bits, FLOAT16_DROPPED));
    float small = (size + 0.5f) - 0.5f;
    float rounded = size < 0x1p-14f ? small : size >= 65520.0f ? __builtin_inff() : normal;

    return x == x ? float_of(bits_of(rounded) | sign) : x;
}

void KERNEL_NAME(round_values)(enum tensor_type type, const float *x, float *y, int64_t count)
{
    if (type == TENSOR_BFLOAT16) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; i++)
            y[i] = round_bfloat16(x[i]);
    } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; i++)
            y[i] = round_float16(x[i]);
    }
}

void KERNEL_NAME(convert_bfloat16)(const float *restrict x, uint16_t *restrict y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(x[i]), quiet = bits | 0x400000u; /* a NaN keeps its high bits */
        uint32_t rounded = round_mantissa(bits, BFLOAT16_DROPPED);

        y[i] = (uint16_t)((x[i] == x[i] ? rounded : quiet) >> BFLOAT16_DROPPED);
    }
}

void KERNEL_NAME(column_sum_bfloat16)(const uint16_t *restrict x, int64_t rows, int64_t columns,
                                      int64_t stride, float *restrict sum, bool accumulate)
{
    for (int64_t c = 0; c < columns; c++)
        sum[c] = accumulate ? sum[c] : 0.0f;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            sum[c] += float_of((uint32_t)x[r * stride + c] << BFLOAT16_DROPPED);
}
