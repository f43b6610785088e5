/* pooling.c: maximum and average over windows of images. The innermost loop runs over the channels
 * of a block, which lie side by side. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>

enum { BLOCK_MAX = 16 };

/* The part of a window that lies within the image, along one axis. */
struct span {
    int64_t start; /* of the window, may be negative */
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

static inline void max_window(const float *image, const struct pool_shape *shape, struct span rows,
                              struct span columns, int64_t block, float *y, uint8_t *arg)
{
    float best[BLOCK_MAX];
    int32_t where[BLOCK_MAX];

    for (int64_t k = 0; k < block; k++) {
        best[k] = -INFINITY;
        where[k] = 0;
    }
    for (int64_t h = rows.first; h < rows.end; h++)
        for (int64_t w = columns.first; w < columns.end; w++) {
            int32_t position = (int32_t)((h - rows.start) * shape->kernel[1] + (w - columns.start));
            const float *x = image + (h * shape->width + w) * block;

            for (int64_t k = 0; k < block; k++) {
                /* not (<=): NaN wins, as in PyTorch */
                bool larger = !(x[k] <= best[k]);
                best[k] = larger ? x[k] : best[k];
                where[k] = larger ? position : where[k];
            }
        }
    for (int64_t k = 0; k < block; k++)
        y[k] = best[k];
    if (arg)
        for (int64_t k = 0; k < block; k++)
            arg[k] = (uint8_t)where[k];
}

static inline void max_image(const float *image, const struct pool_shape *shape, int64_t block,
                             float *y, uint8_t *arg)
{
    for (int64_t oh = 0; oh < shape->out_height; oh++) {
        struct span rows = window_span(shape, 0, oh, shape->height);

        for (int64_t ow = 0; ow < shape->out_width; ow++) {
            struct span columns = window_span(shape, 1, ow, shape->width);
            int64_t out = (oh * shape->out_width + ow) * block;

            max_window(image, shape, rows, columns, block, y + out, arg ? arg + out : NULL);
        }
    }
}

void KERNEL_NAME(max_pool_forward)(const float *x, const struct pool_shape *shape, int64_t images,
                                   int64_t block, float *y, uint8_t *arg)
{
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;

    for (int64_t i = 0; i < images; i++) {
        uint8_t *image_arg = arg ? arg + i * out : NULL;

        if (block == 16)
            max_image(x + i * in, shape, 16, y + i * out, image_arg);
        else if (block == 8)
            max_image(x + i * in, shape, 8, y + i * out, image_arg);
        else
            max_image(x + i * in, shape, 1, y + i * out, image_arg);
    }
}

static inline void max_image_backward(const float *dy, const uint8_t *arg,
                                      const struct pool_shape *shape, int64_t block, float *dx)
{
    for (int64_t i = 0; i < shape->height * shape->width * block; i++)
        dx[i] = 0.0f;
    for (int64_t oh = 0; oh < shape->out_height; oh++)
        for (int64_t ow = 0; ow < shape->out_width; ow++) {
            int64_t out = (oh * shape->out_width + ow) * block;
            int64_t row = oh * shape->stride[0] - shape->padding[0];
            int64_t column = ow * shape->stride[1] - shape->padding[1];

            for (int64_t k = 0; k < block; k++) {
                int64_t h = row + arg[out + k] / shape->kernel[1];
                int64_t w = column + arg[out + k] % shape->kernel[1];

                dx[(h * shape->width + w) * block + k] += dy[out + k];
            }
        }
}

void KERNEL_NAME(max_pool_backward)(const float *dy, const uint8_t *arg,
                                    const struct pool_shape *shape, int64_t images, int64_t block,
                                    float *dx)
{
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;

    for (int64_t i = 0; i < images; i++)
        max_image_backward(dy + i * out, arg + i * out, shape, block, dx + i * in);
}

static inline void average_image(const float *image, const struct pool_shape *shape, int64_t block,
                                 float *y)
{
    const float scale = 1.0f / (float)(shape->kernel[0] * shape->kernel[1]);

    for (int64_t oh = 0; oh < shape->out_height; oh++)
        for (int64_t ow = 0; ow < shape->out_width; ow++) {
            struct span rows = window_span(shape, 0, oh, shape->height);
            struct span columns = window_span(shape, 1, ow, shape->width);
            float sum[BLOCK_MAX] = {0};

            for (int64_t h = rows.first; h < rows.end; h++)
                for (int64_t w = columns.first; w < columns.end; w++)
                    for (int64_t k = 0; k < block; k++)
                        sum[k] += image[(h * shape->width + w) * block + k];
            for (int64_t k = 0; k < block; k++)
                y[(oh * shape->out_width + ow) * block + k] = sum[k] * scale;
        }
}

void KERNEL_NAME(average_pool_forward)(const float *x, const struct pool_shape *shape,
                                       int64_t images, int64_t block, float *y)
{
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;

    for (int64_t i = 0; i < images; i++) {
        if (block == 16)
            average_image(x + i * in, shape, 16, y + i * out);
        else if (block == 8)
            average_image(x + i * in, shape, 8, y + i * out);
        else
            average_image(x + i * in, shape, 1, y + i * out);
    }
}

void KERNEL_NAME(average_pool_backward)(const float *dy, const struct pool_shape *shape,
                                        int64_t images, int64_t block, float *dx)
{
    const float scale = 1.0f / (float)(shape->kernel[0] * shape->kernel[1]);
    int64_t in = shape->height * shape->width * block;
    int64_t out = shape->out_height * shape->out_width * block;

    for (int64_t i = 0; i < images; i++, dx += in, dy += out) {
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
