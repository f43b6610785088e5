/* row_norm.c: layer norm and RMS norm, row by row, and their gradients. A row stays in the cache
 * between its passes. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

static inline float row_mean(const float *x, int64_t width)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++)
        sum += x[i];
    return sum / (float)width;
}

static inline float row_mean_square(const float *x, float center, int64_t width)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++)
        sum += (x[i] - center) * (x[i] - center);
    return sum / (float)width;
}

void KERNEL_NAME(row_norm_forward)(const struct row_norm *norm, const float *x, const float *addend,
                                   int64_t rows, float *sum, float *y, float *mean, float *inverse)
{
    const float *restrict weight = norm->weight, *restrict bias = norm->bias;
    const int64_t width = norm->width;

    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * width;
        float *restrict to = y + r * width;
        float center, factor;

        if (addend) {
            const float *restrict other = addend + r * width;
            float *restrict both = sum + r * width;

            for (int64_t i = 0; i < width; i++)
                both[i] = row[i] + other[i];
            row = both;
        }
        center = norm->centred ? row_mean(row, width) : 0.0f;
        factor = 1.0f / sqrtf(row_mean_square(row, center, width) + norm->epsilon);
        if (bias)
            for (int64_t i = 0; i < width; i++)
                to[i] = (row[i] - center) * factor * weight[i] + bias[i];
        else
            for (int64_t i = 0; i < width; i++)
                to[i] = (row[i] - center) * factor * weight[i];
        if (mean)
            mean[r] = center;
        if (inverse)
            inverse[r] = factor;
    }
}

/* Let n be the normalised values (row - mean) inverse, and g = dy weight. Then dx = inverse (g -
 * mean of g - n mean of g n). The mean of g is left out if rows are not centred. */
void KERNEL_NAME(row_norm_backward)(const struct row_norm *norm, const float *dy, const float *x,
                                    const float *dsum, const float *mean, const float *inverse,
                                    int64_t rows, float *dx, float *dweight, float *dbias)
{
    const float *restrict weight = norm->weight;
    const int64_t width = norm->width;

    for (int64_t i = 0; i < width; i++)
        dweight[i] = 0;
    for (int64_t i = 0; dbias && i < width; i++)
        dbias[i] = 0;
    for (int64_t r = 0; r < rows; r++) {
        const float *from = dy + r * width, *row = x + r * width;
        const float center = mean ? mean[r] : 0.0f, factor = inverse[r];
        float sum = 0, product = 0, offset, slope;
        float *to = dx + r * width;

#pragma omp simd reduction(+ : sum, product)
        for (int64_t i = 0; i < width; i++) {
            float g = from[i] * weight[i];

            sum += g;
            product += g * (row[i] - center);
        }
        offset = norm->centred ? -factor * sum / (float)width : 0.0f;
        slope = -factor * factor * factor * product / (float)width;
        if (dbias)
#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                dbias[i] += from[i];
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dweight[i] += from[i] * ((row[i] - center) * factor);
        if (dsum) {
            const float *other = dsum + r * width;

#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                to[i] =
                    from[i] * weight[i] * factor + (row[i] - center) * slope + offset + other[i];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                to[i] = from[i] * weight[i] * factor + (row[i] - center) * slope + offset;
        }
    }
}
