/* normalization.c: sums and moments of channels, over images or matrices in any layout
 * (struct image_layout). */
#include "engine/backends/cpu/kernels/strips.h"

static void plain_moments(const float *x, const struct image_layout *layout, int64_t c, float *mean,
                          float *m2)
{
    double sum = 0, squares = 0;
    float center;

    for (int64_t n = 0; n < layout->samples; n++) {
        const float *row = x + place_of(layout, n, c);
#pragma omp simd reduction(+ : sum)
        for (int64_t p = 0; p < layout->pixels; p++)
            sum += row[p];
    }
    center = (float)(sum / (double)(layout->samples * layout->pixels));
    for (int64_t n = 0; n < layout->samples; n++) {
        const float *row = x + place_of(layout, n, c);
#pragma omp simd reduction(+ : squares)
        for (int64_t p = 0; p < layout->pixels; p++)
            squares += (double)(row[p] - center) * (row[p] - center);
    }
    *mean = center;
    *m2 = (float)squares;
}

/* Two passes over `width` neighbouring channels: the sum, then squares and sum around what that
 * gives for a mean, which corrects both (Chan, Golub and LeVeque 1983, "Algorithms for computing
 * the sample variance", eq. 1.7). Each sample's pixels are summed in float32, the samples in
 * float64. */
static inline __attribute__((always_inline)) void strip_moments(const float *x,
                                                                const struct image_layout *layout,
                                                                int64_t c, int64_t width,
                                                                float *mean, float *m2)
{
    const double count = (double)(layout->samples * layout->pixels);
    double sum[STRIP] = {0}, rest[STRIP] = {0}, squares[STRIP] = {0};
    float center[STRIP] = {0};

    for (int64_t n = 0; n < layout->samples; n++) {
        const float *row = x + place_of(layout, n, c);
        float partial[STRIP] = {0};

        for (int64_t p = 0; p < layout->pixels; p++)
            for (int64_t k = 0; k < width; k++)
                partial[k] += row[p * layout->block + k];
        for (int64_t k = 0; k < width; k++)
            sum[k] += partial[k];
    }
    for (int64_t k = 0; k < width; k++)
        center[k] = (float)(sum[k] / count);
    for (int64_t n = 0; n < layout->samples; n++) {
        const float *row = x + place_of(layout, n, c);
        float partial[STRIP] = {0}, partial_squares[STRIP] = {0};

        for (int64_t p = 0; p < layout->pixels; p++)
            for (int64_t k = 0; k < width; k++) {
                float distance = row[p * layout->block + k] - center[k];
                partial[k] += distance;
                partial_squares[k] += distance * distance;
            }
        for (int64_t k = 0; k < width; k++) {
            rest[k] += partial[k];
            squares[k] += partial_squares[k];
        }
    }
    for (int64_t k = 0; k < width; k++) {
        mean[k] = (float)(center[k] + rest[k] / count);
        m2[k] = (float)(squares[k] - rest[k] * rest[k] / count);
    }
}

void KERNEL_NAME(batch_norm_moments)(const float *x, const struct image_layout *layout, float *mean,
                                     float *m2)
{
    for (int64_t c = 0; c < layout->channels;) {
        int64_t width = strip_width(layout, c);

        if (layout->block == 1)
            plain_moments(x, layout, c, mean + c, m2 + c);
        else if (width == STRIP)
            strip_moments(x, layout, c, STRIP, mean + c, m2 + c);
        else if (width == STRIP / 2)
            strip_moments(x, layout, c, STRIP / 2, mean + c, m2 + c);
        else
            strip_moments(x, layout, c, width, mean + c, m2 + c);
        c += width;
    }
}

void KERNEL_NAME(channel_sum)(const float *x, const struct image_layout *layout, float *sum)
{
    for (int64_t c = 0; c < layout->channels;) {
        int64_t width = strip_width(layout, c);
        double total[STRIP] = {0};

        for (int64_t n = 0; n < layout->samples; n++) {
            const float *row = x + place_of(layout, n, c);
            float partial[STRIP] = {0};

            for (int64_t p = 0; p < layout->pixels; p++)
                for (int64_t k = 0; k < width; k++)
                    partial[k] += row[p * layout->block + k];
            for (int64_t k = 0; k < width; k++)
                total[k] += partial[k];
        }
        for (int64_t k = 0; k < width; k++)
            sum[c + k] = (float)total[k];
        c += width;
    }
}
