/* normalization.c: the parts of batch normalisation, over images or matrices in any block layout
 * (struct image_layout). Ioffe and Szegedy 2015, arXiv:1502.03167. */
#include "engine/backends/cpu/kernels/kernels.h"

/* The arithmetic is the same whether neighbours are channels (block > 1) or pixels of one channel
 * (block 1); the loops are not. Blocks are walked in strips that stay in registers. */
enum { STRIP = 16 };

static int64_t strip_width(const struct image_layout *layout, int64_t c)
{
    int64_t left = layout->block - c % layout->block;

    return left < STRIP ? left : STRIP;
}

/* Where channel c of sample n begins; the next pixel lies `block` further. */
static int64_t place_of(const struct image_layout *layout, int64_t n, int64_t c)
{
    return (n * (layout->channels / layout->block) + c / layout->block) * layout->pixels *
               layout->block +
           c % layout->block;
}

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

static inline void strip_apply(const float *x, const struct image_layout *layout, int64_t width,
                               const float *factor, const float *offset, float low, float *y)
{
#pragma GCC ivdep
    for (int64_t p = 0; p < layout->pixels; p++)
#pragma GCC ivdep
        for (int64_t k = 0; k < width; k++) {
            float value = x[p * layout->block + k] * factor[k] + offset[k];
            y[p * layout->block + k] = value < low ? low : value;
        }
}

void KERNEL_NAME(batch_norm_apply)(const float *x, const struct image_layout *layout,
                                   const float *factor, const float *offset, bool relu, float *y)
{
    const float low = relu ? 0.0f : -__builtin_inff();

    for (int64_t n = 0; n < layout->samples; n++)
        for (int64_t c = 0; c < layout->channels;) {
            int64_t place = place_of(layout, n, c), width = strip_width(layout, c);

            if (layout->block == 1) {
                const float a = factor[c], b = offset[c];
#pragma GCC ivdep
                for (int64_t p = 0; p < layout->pixels; p++) {
                    float value = x[place + p] * a + b;
                    y[place + p] = value < low ? low : value;
                }
            } else if (width == STRIP) {
                strip_apply(x + place, layout, STRIP, factor + c, offset + c, low, y + place);
            } else if (width == STRIP / 2) {
                strip_apply(x + place, layout, STRIP / 2, factor + c, offset + c, low, y + place);
            } else {
                strip_apply(x + place, layout, width, factor + c, offset + c, low, y + place);
            }
            c += width;
        }
}

static inline void strip_backward_sums(const float *x, const float *dy,
                                       const struct image_layout *layout, int64_t c, int64_t width,
                                       const float *mean, float *sum_dy, float *sum_dy_x)
{
    double total[STRIP] = {0}, total_x[STRIP] = {0};

    for (int64_t n = 0; n < layout->samples; n++) {
        int64_t place = place_of(layout, n, c);
        float partial[STRIP] = {0}, partial_x[STRIP] = {0};

        for (int64_t p = 0; p < layout->pixels; p++)
            for (int64_t k = 0; k < width; k++) {
                float d = dy[place + p * layout->block + k];
                partial[k] += d;
                partial_x[k] += d * (x[place + p * layout->block + k] - mean[k]);
            }
        for (int64_t k = 0; k < width; k++) {
            total[k] += partial[k];
            total_x[k] += partial_x[k];
        }
    }
    for (int64_t k = 0; k < width; k++) {
        sum_dy[k] = (float)total[k];
        sum_dy_x[k] = (float)total_x[k];
    }
}

static void plain_backward_sums(const float *x, const float *dy, const struct image_layout *layout,
                                int64_t c, float mean, float *sum_dy, float *sum_dy_x)
{
    double total = 0, total_x = 0;

    for (int64_t n = 0; n < layout->samples; n++) {
        const float *row = x + place_of(layout, n, c), *gradient = dy + place_of(layout, n, c);
#pragma omp simd reduction(+ : total, total_x)
        for (int64_t p = 0; p < layout->pixels; p++) {
            total += gradient[p];
            total_x += (double)gradient[p] * (row[p] - mean);
        }
    }
    *sum_dy = (float)total;
    *sum_dy_x = (float)total_x;
}

void KERNEL_NAME(batch_norm_backward_sums)(const float *x, const float *dy,
                                           const struct image_layout *layout, const float *mean,
                                           float *sum_dy, float *sum_dy_x)
{
    for (int64_t c = 0; c < layout->channels;) {
        int64_t width = strip_width(layout, c);

        if (layout->block == 1)
            plain_backward_sums(x, dy, layout, c, mean[c], sum_dy + c, sum_dy_x + c);
        else if (width == STRIP)
            strip_backward_sums(x, dy, layout, c, STRIP, mean + c, sum_dy + c, sum_dy_x + c);
        else if (width == STRIP / 2)
            strip_backward_sums(x, dy, layout, c, STRIP / 2, mean + c, sum_dy + c, sum_dy_x + c);
        else
            strip_backward_sums(x, dy, layout, c, width, mean + c, sum_dy + c, sum_dy_x + c);
        c += width;
    }
}

static inline void strip_backward_apply(const float *x, const float *dy,
                                        const struct image_layout *layout, int64_t width,
                                        const float *mean, const float *a, const float *b,
                                        const float *d, float *dx)
{
#pragma GCC ivdep
    for (int64_t p = 0; p < layout->pixels; p++)
#pragma GCC ivdep
        for (int64_t k = 0; k < width; k++) {
            int64_t i = p * layout->block + k;
            dx[i] = dy[i] * a[k] + (x[i] - mean[k]) * b[k] + d[k];
        }
}

void KERNEL_NAME(batch_norm_backward_apply)(const float *x, const float *dy,
                                            const struct image_layout *layout, const float *mean,
                                            const float *a, const float *b, const float *d,
                                            float *dx)
{
    for (int64_t n = 0; n < layout->samples; n++)
        for (int64_t c = 0; c < layout->channels;) {
            int64_t i = place_of(layout, n, c), width = strip_width(layout, c);

            if (layout->block == 1) {
                const float center = mean[c], ac = a[c], bc = b[c], dc = d[c];
#pragma GCC ivdep
                for (int64_t p = 0; p < layout->pixels; p++)
                    dx[i + p] = dy[i + p] * ac + (x[i + p] - center) * bc + dc;
            } else if (width == STRIP) {
                strip_backward_apply(x + i, dy + i, layout, STRIP, mean + c, a + c, b + c, d + c,
                                     dx + i);
            } else if (width == STRIP / 2) {
                strip_backward_apply(x + i, dy + i, layout, STRIP / 2, mean + c, a + c, b + c,
                                     d + c, dx + i);
            } else {
                strip_backward_apply(x + i, dy + i, layout, width, mean + c, a + c, b + c, d + c,
                                     dx + i);
            }
            c += width;
        }
}
