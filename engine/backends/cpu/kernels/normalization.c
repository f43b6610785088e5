/* normalization.c: sums and moments of channels, over images or matrices in any layout
 * (struct image_layout). */
#include "engine/backends/cpu/kernels/row_walk.h"

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

/* Adds the channels c to c + width of all samples to sum [width]. Each sample's pixels are summed
 * in float32, the samples in float64. */
static inline __attribute__((always_inline)) void strip_sum(const float *x,
                                                            const struct image_layout *layout,
                                                            int64_t c, int64_t width,
                                                            double sum[STRIP])
{
    for (int64_t n = 0; n < layout->samples; n++) {
        const float *row = x + place_of(layout, n, c);
        float partial[STRIP] = {0};

        for (int64_t p = 0; p < layout->pixels; p++)
            for (int64_t k = 0; k < width; k++)
                partial[k] += row[p * layout->block + k];
        for (int64_t k = 0; k < width; k++)
            sum[k] += partial[k];
    }
}

/* Makes two passes over `width` neighbouring channels. The first one sums up and gives an estimate
 * of the mean. The second one sums up distances from it and their squares, which corrects both
 * (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", eq. 1.7). Each
 * sample's pixels are summed in float32, the samples in float64. */
static inline __attribute__((always_inline)) void strip_moments(const float *x,
                                                                const struct image_layout *layout,
                                                                int64_t c, int64_t width,
                                                                float *mean, float *m2)
{
    const double count = (double)(layout->samples * layout->pixels);
    double sum[STRIP] = {0}, rest[STRIP] = {0}, squares[STRIP] = {0};
    float center[STRIP] = {0};

    strip_sum(x, layout, c, width, sum);
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

/* Sums up squares and distances from `center`, the mean of the first rows. If the mean turns out to
 * lie so far from it that digits are lost, it sums up once more, around the mean. */
static void row_moments(const float *x, const struct row_walk *walk, float *mean, float *m2)
{
    enum { FAR = 64 }; /* the squared distance of the mean from the center, in variances */
    const double count = (double)walk->rows;
    const int64_t first_rows = walk->rows < FOLD ? walk->rows : FOLD;
    float center[WALK] = {0};

    for (int64_t r = 0; r < first_rows; r++)
        for (int64_t k = 0; k < walk->width; k++)
            center[k] += x[r * walk->channels + walk->first + k] / (float)first_rows;
    for (int attempt = 0; attempt < 2; attempt++) {
        double rest[WALK] = {0}, squares[WALK] = {0};
        float repeated[WALK], partial[WALK] = {0}, partial_squares[WALK] = {0};
        bool far = false;

        for (int64_t i = 0; i < walk->together * walk->width; i++)
            repeated[i] = center[i % walk->width];
        for (int64_t r = 0, taken = 1; r < walk->rows; r += walk->together, taken++) {
            const float *row = x + r * walk->channels + walk->first;
            int64_t values = row_walk_count(walk, r);

            for (int64_t k = 0; k < values; k++) {
                float distance = row[k] - repeated[k];

                partial[k] += distance;
                partial_squares[k] += distance * distance;
            }
            if (taken % FOLD == 0 || r + walk->together >= walk->rows) {
                row_walk_fold(walk, partial, rest);
                row_walk_fold(walk, partial_squares, squares);
            }
        }
        for (int64_t k = 0; k < walk->width; k++) {
            double square = rest[k] * rest[k] / count;

            mean[k] = (float)(center[k] + rest[k] / count);
            m2[k] = (float)(squares[k] - square);
            far |= square > FAR * (squares[k] - square);
            center[k] = mean[k];
        }
        if (!far)
            break;
    }
}

void KERNEL_NAME(batch_norm_moments)(const float *x, const struct image_layout *layout, float *mean,
                                     float *m2)
{
    for (int64_t c = 0; walks_rows(layout) && c < layout->channels; c += WALK) {
        struct row_walk walk = row_walk_at(layout, c);

        row_moments(x, &walk, mean + c, m2 + c);
    }
    for (int64_t c = walks_rows(layout) ? layout->channels : 0; c < layout->channels;) {
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

        strip_sum(x, layout, c, width, total);
        for (int64_t k = 0; k < width; k++)
            sum[c + k] = (float)total[k];
        c += width;
    }
}
