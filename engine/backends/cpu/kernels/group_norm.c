/* group_norm.c: normalisation of groups of channels of one sample (OP_GROUP_NORM), its gradient,
 * and numbers that are added to channels (OP_CHANNEL_BIAS). The innermost loops run over channels
 * that lie side by side, or over the pixels. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

enum { STRIP = 16 };
/* After this many values, a float32 sum is added to a total, so that long sums stay accurate. */
enum { SUM_PIXELS = 128 };

/* What is summed over the pixels of a channel. */
enum summand { SUM_X, SUM_SQUARE, SUM_PRODUCT };

static inline __attribute__((always_inline)) float term(enum summand summand, float x, float other,
                                                        float mean)
{
    return summand == SUM_X        ? x
           : summand == SUM_SQUARE ? (x - mean) * (x - mean)
                                   : (x - mean) * other;
}

/* sum[k] of the `width` channels that begin at x, of a block. */
static inline __attribute__((always_inline)) void sum_strip(enum summand summand, const float *x,
                                                            const float *other, const float *mean,
                                                            int64_t pixels, int64_t block,
                                                            int64_t width, float *sum)
{
    float total[STRIP] = {0};

    for (int64_t first = 0; first < pixels; first += SUM_PIXELS) {
        int64_t end = first + SUM_PIXELS < pixels ? first + SUM_PIXELS : pixels;
        float part[STRIP] = {0};

        for (int64_t p = first; p < end; p++)
            for (int64_t k = 0; k < width; k++)
                part[k] += term(summand, x[p * block + k], other ? other[p * block + k] : 0.0f,
                                mean ? mean[k] : 0.0f);
        for (int64_t k = 0; k < width; k++)
            total[k] += part[k];
    }
    for (int64_t k = 0; k < width; k++)
        sum[k] = total[k];
}

static inline __attribute__((always_inline)) float
sum_plane(enum summand summand, const float *x, const float *other, float mean, int64_t pixels)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t p = 0; p < pixels; p++)
        sum += term(summand, x[p], other ? other[p] : 0.0f, mean);
    return sum;
}

/* sum[c] for all channels of one sample; mean[c] and other may be NULL. */
static inline __attribute__((always_inline)) void
sum_channels(enum summand summand, const float *x, const float *other, const float *mean,
             const struct image_layout *layout, float *sum)
{
    const int64_t pixels = layout->pixels, block = layout->block;

    for (int64_t c = 0; c < layout->channels; c += block) {
        const float *piece = x + c * pixels, *others = other ? other + c * pixels : NULL;
        int64_t k = 0;

        if (block == 1) {
            sum[c] = sum_plane(summand, piece, others, mean ? mean[c] : 0.0f, pixels);
            continue;
        }
        for (; k + STRIP <= block; k += STRIP)
            sum_strip(summand, piece + k, others ? others + k : NULL, mean ? mean + c + k : NULL,
                      pixels, block, STRIP, sum + c + k);
        if (k < block)
            sum_strip(summand, piece + k, others ? others + k : NULL, mean ? mean + c + k : NULL,
                      pixels, block, block - k, sum + c + k);
    }
}

/* y = x a[c] + b[c] + (z - mean[c]) e[c]; z may be NULL. y may be x. */
static inline __attribute__((always_inline)) void
combine(const float *x, const float *a, const float *b, const float *z, const float *mean,
        const float *e, const struct image_layout *layout, float *y)
{
    const int64_t pixels = layout->pixels, block = layout->block;

    for (int64_t c = 0; c < layout->channels; c += block)
        for (int64_t p = 0; p < pixels; p++) {
            const int64_t at = c * pixels + p * block;

#pragma GCC ivdep
            for (int64_t k = 0; k < block; k++)
                y[at + k] = x[at + k] * a[c + k] + b[c + k] +
                            (z ? (z[at + k] - mean[c + k]) * e[c + k] : 0.0f);
        }
}

/* The same with one channel after another. */
static void combine_planes(const float *x, const float *a, const float *b, const float *z,
                           const float *mean, const float *e, const struct image_layout *layout,
                           float *y)
{
    const int64_t pixels = layout->pixels;

    for (int64_t c = 0; c < layout->channels; c++) {
        const int64_t at = c * pixels;

        if (z)
#pragma GCC ivdep
            for (int64_t p = at; p < at + pixels; p++)
                y[p] = x[p] * a[c] + b[c] + (z[p] - mean[c]) * e[c];
        else
#pragma GCC ivdep
            for (int64_t p = at; p < at + pixels; p++)
                y[p] = x[p] * a[c] + b[c];
    }
}

/* numbers[c] of a group become the sum of them, times `factor`. Returns it. */
static float spread_sum(float *numbers, int64_t count, float factor)
{
    double sum = 0;

    for (int64_t c = 0; c < count; c++)
        sum += (double)numbers[c];
    for (int64_t c = 0; c < count; c++)
        numbers[c] = (float)(sum * (double)factor);
    return (float)(sum * (double)factor);
}

/* y = (x - mean[c]) a[c] + b[c]: the difference comes first, because both may be large. */
static void normalise(const float *x, const float *mean, const float *a, const float *b,
                      const struct image_layout *layout, float *y)
{
    const int64_t pixels = layout->pixels, block = layout->block;

    for (int64_t c = 0; c < layout->channels; c += block)
        if (block == 1)
#pragma GCC ivdep
            for (int64_t p = c * pixels; p < (c + 1) * pixels; p++)
                y[p] = (x[p] - mean[c]) * a[c] + b[c];
        else
            for (int64_t p = 0; p < pixels; p++) {
                const int64_t at = c * pixels + p * block;

#pragma GCC ivdep
                for (int64_t k = 0; k < block; k++)
                    y[at + k] = (x[at + k] - mean[c + k]) * a[c + k] + b[c + k];
            }
}

void KERNEL_NAME(group_norm_forward)(const struct group_norm *norm, const float *x,
                                     const struct image_layout *layout, float *y, float *mean,
                                     float *inverse_std, float *scratch)
{
    const int64_t channels = layout->channels, of_group = channels / norm->groups;
    const float share = 1.0f / (float)(of_group * layout->pixels);
    float *means = scratch, *factors = scratch + channels;

    sum_channels(SUM_X, x, NULL, NULL, layout, means);
    for (int64_t g = 0; g < norm->groups; g++) {
        float value = spread_sum(means + g * of_group, of_group, share);

        if (mean)
            mean[g] = value;
    }
    sum_channels(SUM_SQUARE, x, NULL, means, layout, factors);
    for (int64_t g = 0; g < norm->groups; g++) {
        float variance = spread_sum(factors + g * of_group, of_group, share);
        float inverse = 1.0f / sqrtf(variance + norm->epsilon);

        if (inverse_std)
            inverse_std[g] = inverse;
        for (int64_t c = g * of_group; c < (g + 1) * of_group; c++)
            factors[c] = inverse * norm->weight[c];
    }
    normalise(x, means, factors, norm->bias, layout, y);
}

void KERNEL_NAME(group_norm_backward)(const struct group_norm *norm, const float *dy,
                                      const float *x, const struct image_layout *layout,
                                      const float *mean, const float *inverse_std, float *dx,
                                      float *dweight, float *dbias, float *scratch)
{
    const int64_t channels = layout->channels, of_group = channels / norm->groups;
    const float share = 1.0f / (float)(of_group * layout->pixels);
    float *means = scratch, *a = means + channels, *b = a + channels, *e = b + channels;

    for (int64_t c = 0; c < channels; c++)
        means[c] = mean[c / of_group];
    sum_channels(SUM_X, dy, NULL, NULL, layout, dbias);
    sum_channels(SUM_PRODUCT, x, dy, means, layout, dweight);
    for (int64_t c = 0; c < channels; c++) {
        const float inverse = inverse_std[c / of_group];

        dweight[c] *= inverse;
        a[c] = norm->weight[c] * inverse;
        b[c] = dbias[c] * norm->weight[c];
        e[c] = dweight[c] * norm->weight[c];
    }
    for (int64_t g = 0; g < norm->groups; g++) {
        spread_sum(b + g * of_group, of_group, -share * inverse_std[g]);
        spread_sum(e + g * of_group, of_group, -share * inverse_std[g] * inverse_std[g]);
    }
    if (layout->block == 1)
        combine_planes(dy, a, b, x, means, e, layout, dx);
    else
        combine(dy, a, b, x, means, e, layout, dx);
}

/* ---- numbers that are added to channels ---- */

void KERNEL_NAME(channel_bias_forward)(const float *x, const float *bias,
                                       const struct image_layout *layout, float *y)
{
    const int64_t pixels = layout->pixels, block = layout->block;

    for (int64_t i = 0; i < layout->samples * layout->channels; i += block) {
        const float *added = bias + i % layout->channels;

        for (int64_t p = 0; block > 1 && p < pixels; p++)
#pragma GCC ivdep
            for (int64_t k = 0; k < block; k++)
                y[i * pixels + p * block + k] = x[i * pixels + p * block + k] + added[k];
        if (block == 1)
#pragma GCC ivdep
            for (int64_t p = i * pixels; p < (i + 1) * pixels; p++)
                y[p] = x[p] + *added;
    }
}

void KERNEL_NAME(channel_bias_backward)(const float *dy, const struct image_layout *layout,
                                        int64_t first, int64_t end, bool accumulate, float *dbias)
{
    const int64_t pixels = layout->pixels, block = layout->block;

    for (int64_t c = first, width; c < end; c += width) {
        float total[STRIP] = {0}, sum[STRIP];

        width = block - c % block < end - c ? block - c % block : end - c;
        width = width < STRIP ? width : STRIP;
        for (int64_t n = 0; n < layout->samples; n++) {
            const float *piece = dy + (n * layout->channels + c - c % block) * pixels + c % block;

            if (block == 1)
                sum[0] = sum_plane(SUM_X, piece, NULL, 0.0f, pixels);
            else if (width == STRIP)
                sum_strip(SUM_X, piece, NULL, NULL, pixels, block, STRIP, sum);
            else
                sum_strip(SUM_X, piece, NULL, NULL, pixels, block, width, sum);
            for (int64_t k = 0; k < width; k++)
                total[k] += sum[k];
        }
        for (int64_t k = 0; k < width; k++)
            dbias[c + k] = (accumulate ? dbias[c + k] : 0.0f) + total[k];
    }
}
