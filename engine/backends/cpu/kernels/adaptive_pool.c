/* adaptive_pool.c: maximum and average over windows that follow from the size of the result
 * (OP_ADAPTIVE_MAX_POOL2D, OP_ADAPTIVE_AVERAGE_POOL2D), and the gradients. The innermost loop runs
 * over channels that lie side by side. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>
#include <string.h>

/* The pixels of a window along one axis; windows may overlap by one. */
struct window {
    int64_t first, end;
};

static struct window window_of(int64_t out, int64_t from, int64_t to)
{
    return (struct window){out * from / to, ((out + 1) * from + to - 1) / to};
}

/* A row of a window counts so many positions. */
static int64_t position_row(const struct pool_shape *shape)
{
    return shape->width / shape->out_width + 2;
}

void KERNEL_NAME(adaptive_max_forward)(const float *x, const struct pool_shape *shape,
                                       int64_t images, int64_t block, float *y, uint8_t *arg)
{
    const int64_t columns = position_row(shape);

    for (int64_t i = 0; i < images; i++, x += shape->height * shape->width * block)
        for (int64_t oh = 0; oh < shape->out_height; oh++)
            for (int64_t ow = 0; ow < shape->out_width; ow++, y += block) {
                struct window rows = window_of(oh, shape->height, shape->out_height);
                struct window part = window_of(ow, shape->width, shape->out_width);

                for (int64_t k = 0; k < block; k++) {
                    float best = -INFINITY;
                    uint8_t where = 0;

                    for (int64_t h = rows.first; h < rows.end; h++)
                        for (int64_t w = part.first; w < part.end; w++) {
                            float value = x[(h * shape->width + w) * block + k];

                            if (!(value <= best)) { /* NaN wins, as in PyTorch */
                                best = value;
                                where = (uint8_t)((h - rows.first) * columns + w - part.first);
                            }
                        }
                    y[k] = best;
                    if (arg)
                        arg[k] = where;
                }
                arg = arg ? arg + block : NULL;
            }
}

void KERNEL_NAME(adaptive_max_backward)(const float *dy, const uint8_t *arg,
                                        const struct pool_shape *shape, int64_t images,
                                        int64_t block, float *dx)
{
    const int64_t columns = position_row(shape), image = shape->height * shape->width * block;

    for (int64_t i = 0; i < images; i++, dx += image) {
        memset(dx, 0, (size_t)image * sizeof *dx);
        for (int64_t oh = 0; oh < shape->out_height; oh++)
            for (int64_t ow = 0; ow < shape->out_width; ow++, dy += block, arg += block) {
                int64_t row = window_of(oh, shape->height, shape->out_height).first;
                int64_t column = window_of(ow, shape->width, shape->out_width).first;

                for (int64_t k = 0; k < block; k++) {
                    int64_t h = row + arg[k] / columns, w = column + arg[k] % columns;

                    dx[(h * shape->width + w) * block + k] += dy[k];
                }
            }
    }
}

void KERNEL_NAME(adaptive_average_forward)(const float *x, const struct pool_shape *shape,
                                           int64_t images, int64_t block, float *y)
{
    for (int64_t i = 0; i < images; i++, x += shape->height * shape->width * block)
        for (int64_t oh = 0; oh < shape->out_height; oh++)
            for (int64_t ow = 0; ow < shape->out_width; ow++, y += block) {
                struct window rows = window_of(oh, shape->height, shape->out_height);
                struct window part = window_of(ow, shape->width, shape->out_width);
                const float count = (float)((rows.end - rows.first) * (part.end - part.first));

                for (int64_t k = 0; k < block; k++)
                    y[k] = 0.0f;
                for (int64_t h = rows.first; h < rows.end; h++)
                    for (int64_t w = part.first; w < part.end; w++)
                        for (int64_t k = 0; k < block; k++)
                            y[k] += x[(h * shape->width + w) * block + k];
                for (int64_t k = 0; k < block; k++)
                    y[k] /= count;
            }
}

void KERNEL_NAME(adaptive_average_backward)(const float *dy, const struct pool_shape *shape,
                                            int64_t images, int64_t block, float *dx)
{
    const int64_t image = shape->height * shape->width * block;

    for (int64_t i = 0; i < images; i++, dx += image) {
        memset(dx, 0, (size_t)image * sizeof *dx);
        for (int64_t oh = 0; oh < shape->out_height; oh++)
            for (int64_t ow = 0; ow < shape->out_width; ow++, dy += block) {
                struct window rows = window_of(oh, shape->height, shape->out_height);
                struct window part = window_of(ow, shape->width, shape->out_width);
                const float factor =
                    1.0f / (float)((rows.end - rows.first) * (part.end - part.first));

                for (int64_t h = rows.first; h < rows.end; h++)
                    for (int64_t w = part.first; w < part.end; w++)
                        for (int64_t k = 0; k < block; k++)
                            dx[(h * shape->width + w) * block + k] += dy[k] * factor;
            }
    }
}
