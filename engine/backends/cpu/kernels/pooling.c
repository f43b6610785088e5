/* pooling.c: maximum and average over windows of images. The innermost loop runs over channels that
 * lie side by side, in strips of 16, 8 or 1 of a block. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>
#include <string.h>

enum { STRIP_MAX = 16 };

/* After this many values, a float32 sum is added to a total, so that long sums stay accurate. */
enum { SUM_PIXELS = 128 };

/* The part of a window that lies within the image, along one axis. */
struct span {
    int64_t start; /* relative to the image; may be negative */
    int64_t first, end;
};

static struct span window_span(const struct pool_shape *shape, int axis, int64_t out,
                               int64_t extent)
{
    struct span span = {.start = out * shape->stride[axis] - shape->padding[axis]};

    span.first = span.start < 0 ? 0 : span.start;
    span.end = span.start + shape->kernel[axis];
    span.end = span.end > extent ? extent : span.end;
    return span;
}

static int64_t strip_width(int64_t left)
{
    return left >= 16 ? 16 : left >= 8 ? 8 : 1;
}

/* Finds the maximum over each window of one image, for `width` channels that lie side by side; the
 * next pixel is `block` further. The types hold one vector of channels, and masks select: where[k]
 * = larger ? position : where[k]. */
#define DEFINE_MAX_IMAGE(strip, floats, integers, bytes)                                        \
    static void max_image_##strip(const float *image, const struct pool_shape *shape,           \
                                  int64_t block, float *y, uint8_t *arg)                        \
    {                                                                                           \
        for (int64_t oh = 0; oh < shape->out_height; oh++) {                                    \
            struct span rows = window_span(shape, 0, oh, shape->height);                        \
            for (int64_t ow = 0; ow < shape->out_width; ow++) {                                 \
                struct span columns = window_span(shape, 1, ow, shape->width);                  \
                floats best = (floats){0} - INFINITY;                                           \
                integers where = {0};                                                           \
                for (int64_t h = rows.first; h < rows.end; h++)                                 \
                    for (int64_t w = columns.first; w < columns.end; w++) {                     \
                        floats x;                                                               \
                        memcpy(&x, image + (h * shape->width + w) * block, sizeof(x));          \
                        /* not (<=): NaN wins, as in PyTorch */                                 \
                        integers larger = ~(integers)(x <= best);                               \
                        int32_t position =                                                      \
                            (int32_t)((h - rows.start) * shape->kernel[1] + w - columns.start); \
                        best = (floats)(((integers)x & larger) | ((integers)best & ~larger));   \
                        where = (((integers){0} + position) & larger) | (where & ~larger);      \
                    }                                                                           \
                memcpy(y, &best, sizeof(best));                                                 \
                y += block;                                                                     \
                if (arg) {                                                                      \
                    bytes positions = __builtin_convertvector(where, bytes);                    \
                    memcpy(arg, &positions, sizeof(positions));                                 \
                    arg += block;                                                               \
                }                                                                               \
            }                                                                                   \
        }                                                                                       \
    }

typedef float float_1 __attribute__((vector_size(4)));
typedef int32_t integer_1 __attribute__((vector_size(4)));
typedef uint8_t byte_1 __attribute__((vector_size(1)));
typedef float float_8 __attribute__((vector_size(32)));
typedef int32_t integer_8 __attribute__((vector_size(32)));
typedef uint8_t byte_8 __attribute__((vector_size(8)));
typedef float float_16 __attribute__((vector_size(64)));
typedef int32_t integer_16 __attribute__((vector_size(64)));
typedef uint8_t byte_16 __attribute__((vector_size(16)));

DEFINE_MAX_IMAGE(1, float_1, integer_1, byte_1)
DEFINE_MAX_IMAGE(8, float_8, integer_8, byte_8)
DEFINE_MAX_IMAGE(16, float_16, integer_16, byte_16)

void KERNEL_NAME(max_pool_forward)(const float *x, const struct pool_shape *shape, int64_t images,
                                   int64_t block, float *y, uint8_t *arg)
{
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;

    for (int64_t i = 0; i < images; i++)
        for (int64_t c = 0, width; c < block; c += width) {
            uint8_t *image_arg = arg ? arg + i * out + c : NULL;

            width = strip_width(block - c);
            if (width == 16)
                max_image_16(x + i * in + c, shape, block, y + i * out + c, image_arg);
            else if (width == 8)
                max_image_8(x + i * in + c, shape, block, y + i * out + c, image_arg);
            else
                max_image_1(x + i * in + c, shape, block, y + i * out + c, image_arg);
        }
}

/* The maxima of one image of integers, for a strip of channels that lie side by side. */
#define DEFINE_MAX_BYTES(strip, bytes)                                                    \
    static void max_bytes_##strip(const uint8_t *image, const struct pool_shape *shape,   \
                                  int64_t channels, uint8_t *y)                           \
    {                                                                                     \
        for (int64_t oh = 0; oh < shape->out_height; oh++) {                              \
            struct span rows = window_span(shape, 0, oh, shape->height);                  \
            for (int64_t ow = 0; ow < shape->out_width; ow++, y += channels) {            \
                struct span columns = window_span(shape, 1, ow, shape->width);            \
                bytes best = {0};                                                         \
                for (int64_t h = rows.first; h < rows.end; h++)                           \
                    for (int64_t w = columns.first; w < columns.end; w++) {               \
                        bytes x;                                                          \
                        memcpy(&x, image + (h * shape->width + w) * channels, sizeof(x)); \
                        bytes larger = (bytes)(x > best);                                 \
                        best = (x & larger) | (best & ~larger);                           \
                    }                                                                     \
                memcpy(y, &best, sizeof(best));                                           \
            }                                                                             \
        }                                                                                 \
    }

typedef uint8_t byte_64 __attribute__((vector_size(64)));

DEFINE_MAX_BYTES(1, byte_1)
DEFINE_MAX_BYTES(16, byte_16)
DEFINE_MAX_BYTES(64, byte_64)

void KERNEL_NAME(max_pool_bytes)(const uint8_t *x, const struct pool_shape *shape, int64_t images,
                                 int64_t channels, uint8_t *y)
{
    int64_t in = shape->height * shape->width * channels;
    int64_t out = shape->out_height * shape->out_width * channels;

    for (int64_t i = 0; i < images; i++, x += in, y += out)
        for (int64_t c = 0, width; c < channels; c += width) {
            width = channels - c >= 64 ? 64 : channels - c >= 16 ? 16 : 1;
            if (width == 64)
                max_bytes_64(x + c, shape, channels, y + c);
            else if (width == 16)
                max_bytes_16(x + c, shape, channels, y + c);
            else
                max_bytes_1(x + c, shape, channels, y + c);
        }
}

/* dx[where] += dy. Windows may overlap, so they are added one after the other. */
static inline void max_image_backward(const float *dy, const uint8_t *arg,
                                      const struct pool_shape *shape, int64_t block, float *dx)
{
    const int32_t columns_of_kernel = (int32_t)shape->kernel[1];

    memset(dx, 0, (size_t)(shape->height * shape->width * block) * sizeof(float));
    for (int64_t oh = 0; oh < shape->out_height; oh++)
        for (int64_t ow = 0; ow < shape->out_width; ow++) {
            int64_t row = oh * shape->stride[0] - shape->padding[0];
            int64_t column = ow * shape->stride[1] - shape->padding[1];

            for (int64_t k = 0; k < block; k++) {
                int64_t h = row + arg[k] / columns_of_kernel;
                int64_t w = column + arg[k] % columns_of_kernel;

                dx[(h * shape->width + w) * block + k] += dy[k];
            }
            arg += block;
            dy += block;
        }
}

/* The same if windows do not overlap and fill the image. Every pixel is written once: dy where it
 * was the maximum, and 0 elsewhere. */
#define DEFINE_MAX_IMAGE_BACKWARD(block, integers, bytes)                                      \
    static void max_image_backward_##block(const float *dy, const uint8_t *arg,                \
                                           const struct pool_shape *shape, float *dx)          \
    {                                                                                          \
        for (int64_t oh = 0; oh < shape->out_height; oh++)                                     \
            for (int64_t ow = 0; ow < shape->out_width; ow++) {                                \
                int64_t corner = oh * shape->kernel[0] * shape->width + ow * shape->kernel[1]; \
                int32_t position = 0;                                                          \
                integers gradient, where;                                                      \
                bytes positions;                                                               \
                memcpy(&gradient, dy, sizeof(gradient));                                       \
                memcpy(&positions, arg, sizeof(positions));                                    \
                where = __builtin_convertvector(positions, integers);                          \
                for (int64_t kh = 0; kh < shape->kernel[0]; kh++)                              \
                    for (int64_t kw = 0; kw < shape->kernel[1]; kw++) {                        \
                        integers pixel = (where == position++) & gradient;                     \
                        memcpy(dx + (corner + kh * shape->width + kw) * block, &pixel,         \
                               sizeof(pixel));                                                 \
                    }                                                                          \
                arg += block;                                                                  \
                dy += block;                                                                   \
            }                                                                                  \
    }

DEFINE_MAX_IMAGE_BACKWARD(8, integer_8, byte_8)
DEFINE_MAX_IMAGE_BACKWARD(16, integer_16, byte_16)

static bool is_tiled(const struct pool_shape *shape)
{
    for (int d = 0; d < 2; d++)
        if (shape->stride[d] != shape->kernel[d] || shape->padding[d])
            return false;
    return shape->out_height * shape->kernel[0] == shape->height &&
           shape->out_width * shape->kernel[1] == shape->width;
}

void KERNEL_NAME(max_pool_backward)(const float *dy, const uint8_t *arg,
                                    const struct pool_shape *shape, int64_t images, int64_t block,
                                    float *dx)
{
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;

    for (int64_t i = 0; i < images; i++, dy += out, arg += out, dx += in)
        if (block == 8 && is_tiled(shape))
            max_image_backward_8(dy, arg, shape, dx);
        else if (block == 16 && is_tiled(shape))
            max_image_backward_16(dy, arg, shape, dx);
        else
            max_image_backward(dy, arg, shape, block, dx);
}

static inline void average_image(const float *image, const struct pool_shape *shape, int64_t block,
                                 int64_t width, float *y)
{
    const float scale = 1.0f / (float)(shape->kernel[0] * shape->kernel[1]);

    for (int64_t oh = 0; oh < shape->out_height; oh++)
        for (int64_t ow = 0; ow < shape->out_width; ow++) {
            struct span rows = window_span(shape, 0, oh, shape->height);
            struct span columns = window_span(shape, 1, ow, shape->width);
            float sum[STRIP_MAX] = {0};

            for (int64_t h = rows.first; h < rows.end; h++)
                for (int64_t w = columns.first; w < columns.end; w++)
                    for (int64_t k = 0; k < width; k++)
                        sum[k] += image[(h * shape->width + w) * block + k];
            for (int64_t k = 0; k < width; k++)
                y[(oh * shape->out_width + ow) * block + k] = sum[k] * scale;
        }
}

/* Whether the window is the whole image. */
static bool is_global(const struct pool_shape *shape)
{
    return shape->out_height == 1 && shape->out_width == 1 && !shape->padding[0] &&
           !shape->padding[1] && shape->kernel[0] == shape->height &&
           shape->kernel[1] == shape->width;
}

static inline void global_average(const float *image, int64_t pixels, int64_t block, int64_t width,
                                  float *y)
{
    float sum[STRIP_MAX] = {0};

    for (int64_t p = 0; p < pixels; p += SUM_PIXELS) {
        int64_t end = p + SUM_PIXELS < pixels ? p + SUM_PIXELS : pixels;
        float part[STRIP_MAX] = {0};

        for (int64_t i = p; i < end; i++)
            for (int64_t k = 0; k < width; k++)
                part[k] += image[i * block + k];
        for (int64_t k = 0; k < width; k++)
            sum[k] += part[k];
    }
    for (int64_t k = 0; k < width; k++)
        y[k] = sum[k] / (float)pixels;
}

static float global_average_plain(const float *image, int64_t pixels)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < pixels; i++)
        sum += image[i];
    return sum / (float)pixels;
}

/* Averages `width` channels of a block. The width is a constant at each call, so that the compiler
 * unrolls the loops over it. */
static inline __attribute__((always_inline)) void average_strip(const float *x,
                                                                const struct pool_shape *shape,
                                                                int64_t block, int64_t width,
                                                                float *y)
{
    if (is_global(shape))
        global_average(x, shape->height * shape->width, block, width, y);
    else
        average_image(x, shape, block, width, y);
}

void KERNEL_NAME(average_pool_forward)(const float *x, const struct pool_shape *shape,
                                       int64_t images, int64_t block, float *y)
{
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;

    for (int64_t i = 0; i < images; i++, x += in, y += out) {
        if (block == 1 && is_global(shape)) {
            *y = global_average_plain(x, shape->height * shape->width);
            continue;
        }
        for (int64_t c = 0, width; c < block; c += width) {
            width = strip_width(block - c);
            if (width == 16)
                average_strip(x + c, shape, block, 16, y + c);
            else if (width == 8)
                average_strip(x + c, shape, block, 8, y + c);
            else
                average_strip(x + c, shape, block, 1, y + c);
        }
    }
}

void KERNEL_NAME(average_pool_backward)(const float *dy, const struct pool_shape *shape,
                                        int64_t images, int64_t block, float *dx)
{
    const float scale = 1.0f / (float)(shape->kernel[0] * shape->kernel[1]);
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;
    bool whole = is_global(shape);

    for (int64_t i = 0; i < images; i++, dx += in, dy += out) {
        if (whole) {
            for (int64_t p = 0; p < in; p += block)
                for (int64_t k = 0; k < block; k++)
                    dx[p + k] = dy[k] * scale;
            continue;
        }
        for (int64_t k = 0; k < in; k++)
            dx[k] = 0.0f;
        for (int64_t oh = 0; oh < shape->out_height; oh++)
            for (int64_t ow = 0; ow < shape->out_width; ow++) {
                struct span rows = window_span(shape, 0, oh, shape->height);
                struct span columns = window_span(shape, 1, ow, shape->width);
                const float *gradient = dy + (oh * shape->out_width + ow) * block;

                for (int64_t h = rows.first; h < rows.end; h++)
                    for (int64_t w = columns.first; w < columns.end; w++)
                        for (int64_t k = 0; k < block; k++)
                            dx[(h * shape->width + w) * block + k] += gradient[k] * scale;
            }
    }
}
