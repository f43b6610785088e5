/* quantize.c: integers of 8 bits with a scale and a zero point for a whole tensor. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

/* Adding and taking away 1.5 * 2^23 rounds to the nearest, ties to even. */
static const float magic = 12582912.0f;

/* Rounded, from 0 to 255; what is no number becomes 0. */
static inline float to_integer(float x, float inverse_scale, float zero)
{
    float value = x * inverse_scale;

    value = value > -256.0f ? value : -256.0f;
    value = value < 511.0f ? value : 511.0f;
    value = (value + magic) - magic + zero;
    value = value > 0.0f ? value : 0.0f;
    return value < 255.0f ? value : 255.0f;
}

void KERNEL_NAME(quantize)(const float *x, int64_t count, float inverse_scale, float zero,
                           uint8_t *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = (uint8_t)(int32_t)to_integer(x[i], inverse_scale, zero);
}

void KERNEL_NAME(dequantize)(const uint8_t *x, int64_t count, float scale, float zero, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = ((float)x[i] - zero) * scale;
}

void KERNEL_NAME(fake_quantize)(const float *x, int64_t count, float scale, float zero, float *y)
{
    float inverse = 1 / scale;

    for (int64_t i = 0; i < count; i++) {
        float value = (to_integer(x[i], inverse, zero) - zero) * scale;

        y[i] = x[i] == x[i] ? value : x[i];
    }
}

void KERNEL_NAME(fake_quantize_backward)(const float *dy, const float *x, int64_t count,
                                         float scale, float zero, float *dx)
{
    float inverse = 1 / scale;

    for (int64_t i = 0; i < count; i++) {
        float value = x[i] * inverse;

        /* far from the range it need not be exact */
        value = value > -256.0f ? value : -256.0f;
        value = value < 511.0f ? value : 511.0f;
        value = (value + magic) - magic + zero;
        dx[i] = value >= 0.0f && value <= 255.0f ? dy[i] : 0.0f;
    }
}

static void round_symmetric(const float *x, int64_t width, float *y)
{
    float most = 0, scale;

    for (int64_t i = 0; i < width; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    scale = most > 127 * __FLT_MIN__ ? most / 127 : 1;
    for (int64_t i = 0; i < width; i++)
        y[i] = ((x[i] / scale + magic) - magic) * scale;
}

static void round_row(const float *x, int64_t width, float *y)
{
    float range[2] = {0, 0}, scale;

    KERNEL_NAME(widen_range)(x, width, range);
    scale = (range[1] - range[0]) * (1.0f / 255.0f);
    scale = scale > 0 ? scale : 1;
    KERNEL_NAME(fake_quantize)(x, width, scale, (-range[0] / scale + magic) - magic, y);
}

void KERNEL_NAME(fake_quantize_rows)(const float *x, int64_t rows, int64_t width, bool symmetric,
                                     float *y)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width)
        (symmetric ? round_symmetric : round_row)(x, width, y);
}

void KERNEL_NAME(widen_range)(const float *x, int64_t count, float range[2])
{
    float least = range[0], most = range[1];

    for (int64_t i = 0; i < count; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    range[0] = least;
    range[1] = most;
}
