/* channel_scale.c: multiplies images by a number for each sample and channel (squeeze-and-excite).
 * The innermost loop runs over channels that lie side by side, or over the pixels. */
#include "engine/backends/cpu/kernels/kernels.h"

enum { STRIP = 16 };
/* After this many values, a float32 sum is added to a total, so that long sums stay accurate. */
enum { SUM_PIXELS = 128 };

static inline void scale_image(const float *x, const float *scale, int64_t pixels, int64_t block,
                               float *y)
{
#pragma GCC ivdep
    for (int64_t p = 0; p < pixels; p++)
#pragma GCC ivdep
        for (int64_t k = 0; k < block; k++)
            y[p * block + k] = x[p * block + k] * scale[k];
}

static void scale_plane(const float *x, float scale, int64_t pixels, float *y)
{
#pragma GCC ivdep
    for (int64_t p = 0; p < pixels; p++)
        y[p] = x[p] * scale;
}

void KERNEL_NAME(channel_scale_forward)(const float *x, const float *scale,
                                        const struct image_layout *layout, float *y)
{
    const int64_t pixels = layout->pixels, block = layout->block, piece = pixels * block;

    for (int64_t i = 0; i < layout->samples * layout->channels / block; i++)
        if (block == 16)
            scale_image(x + i * piece, scale + i * block, pixels, 16, y + i * piece);
        else if (block == 8)
            scale_image(x + i * piece, scale + i * block, pixels, 8, y + i * piece);
        else if (block > 1)
            scale_image(x + i * piece, scale + i * block, pixels, block, y + i * piece);
        else
            scale_plane(x + i * piece, scale[i], pixels, y + i * piece);
}

/* Computes `width` channels of a block, at most STRIP. It reads x and dy of a pixel before it
 * writes dx, because dx may be dy. */
static inline __attribute__((always_inline)) void
scale_strip_backward(const float *dy, const float *x, const float *scale, int64_t pixels,
                     int64_t block, int64_t width, float *dx, float *dscale)
{
    float sum[STRIP] = {0};

    for (int64_t first = 0; first < pixels; first += SUM_PIXELS) {
        int64_t end = first + SUM_PIXELS < pixels ? first + SUM_PIXELS : pixels;
        float part[STRIP] = {0};

        for (int64_t p = first; p < end; p++)
#pragma GCC ivdep
            for (int64_t k = 0; k < width; k++) {
                float d = dy[p * block + k];
                part[k] += d * x[p * block + k];
                dx[p * block + k] = d * scale[k];
            }
        for (int64_t k = 0; k < width; k++)
            sum[k] += part[k];
    }
    for (int64_t k = 0; k < width; k++)
        dscale[k] = sum[k];
}

static void scale_image_backward(const float *dy, const float *x, const float *scale,
                                 int64_t pixels, int64_t block, float *dx, float *dscale)
{
    int64_t c = 0;

    for (; c + STRIP <= block; c += STRIP)
        scale_strip_backward(dy + c, x + c, scale + c, pixels, block, STRIP, dx + c, dscale + c);
    for (; c + STRIP / 2 <= block; c += STRIP / 2)
        scale_strip_backward(dy + c, x + c, scale + c, pixels, block, STRIP / 2, dx + c,
                             dscale + c);
    if (c < block)
        scale_strip_backward(dy + c, x + c, scale + c, pixels, block, block - c, dx + c,
                             dscale + c);
}

static float scale_plane_backward(const float *dy, const float *x, float scale, int64_t pixels,
                                  float *dx)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t p = 0; p < pixels; p++)
        sum += dy[p] * x[p];
    scale_plane(dy, scale, pixels, dx);
    return sum;
}

void KERNEL_NAME(channel_scale_backward)(const float *dy, const float *x, const float *scale,
                                         const struct image_layout *layout, float *dx,
                                         float *dscale)
{
    const int64_t pixels = layout->pixels, block = layout->block, piece = pixels * block;

    for (int64_t i = 0; i < layout->samples * layout->channels / block; i++) {
        const int64_t place = i * piece;

        if (block > 1)
            scale_image_backward(dy + place, x + place, scale + i * block, pixels, block,
                                 dx + place, dscale + i * block);
        else
            dscale[i] = scale_plane_backward(dy + place, x + place, scale[i], pixels, dx + place);
    }
}
