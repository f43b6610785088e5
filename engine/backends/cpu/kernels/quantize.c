/* quantize.c: integers of 8 bits with a scale and a zero point for a whole tensor. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

/* Rounds to the nearest, ties to even, by adding and taking away 1.5 * 2^23. NaN becomes 0. */
void KERNEL_NAME(quantize)(const float *x, int64_t count, float inverse_scale, float zero,
                           uint8_t *y)
{
    const float magic = 12582912.0f;

    for (int64_t i = 0; i < count; i++) {
        float value = x[i] * inverse_scale;

        value = value > -256.0f ? value : -256.0f;
        value = value < 511.0f ? value : 511.0f;
        value = (value + magic) - magic + zero;
        value = value > 0.0f ? value : 0.0f;
        value = value < 255.0f ? value : 255.0f;
        y[i] = (uint8_t)(int32_t)value;
    }
}

void KERNEL_NAME(dequantize)(const uint8_t *x, int64_t count, float scale, float zero, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = ((float)x[i] - zero) * scale;
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
