/* muon.c: the elementwise part of Muon; operator_muon.c has its products of matrices. */
#include "engine/backends/cpu/kernels/kernels.h"

double KERNEL_NAME(muon_direction)(const struct optimizer_config *config,
                                   const struct optimizer_scalars *scalars,
                                   const float *restrict gradient, float *restrict momentum,
                                   float *restrict direction, int64_t count)
{
    const float keep = (float)scalars->momentum, rest = (float)(1.0 - scalars->momentum);
    const float factor = scalars->gradient_factor, limit = scalars->gradient_limit;
    double squares = 0;

    for (int64_t i = 0; i < count; i++) {
        float g = factor * gradient[i];

        g = limit < g ? limit : g;
        g = -limit > g ? -limit : g;
        momentum[i] = keep * momentum[i] + rest * g;
        direction[i] = config->nesterov ? g + keep * (momentum[i] - g) : momentum[i];
    }
    for (int64_t i = 0; i < count; i++)
        squares += (double)direction[i] * (double)direction[i];
    return squares;
}

void KERNEL_NAME(scaled_sum)(float a, const float *restrict x, float b, float *restrict y,
                             int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = a * x[i] + b * y[i];
}

void KERNEL_NAME(scale)(const float *x, float factor, float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = factor * x[i];
}
