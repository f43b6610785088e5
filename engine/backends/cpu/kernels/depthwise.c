/* depthwise.c: the gradient of depthwise convolutions' weights. oneDNN 2.6 has a kernel for it up
 * to a width of 3, and none for images smaller than the kernel: then it multiplies matrices channel
 * by channel. For 8 images of MobileNet's and EfficientNet's layers with kernels of 5x5, one thread
 * of a Cascade Lake (AVX-512) with oneDNN 2.6.3 takes 34 ms for 1152 channels of 2x2, 22 ms for 672
 * of 4x4, 15 ms for 240 of 8x8; these loops take 0.07, 0.16 and 0.2 ms. */
#include "engine/backends/cpu/kernels/kernels.h"

#include <string.h>

typedef float floats_8 __attribute__((vector_size(32)));
typedef float floats_16 __attribute__((vector_size(64)));

/* Positions of a row of y whose whole window, from `start` = position * stride - padding, lies
 * within the row of x. */
struct interior {
    int64_t first, end;
};

static struct interior find_interior(const struct pool_shape *shape)
{
    int64_t stride = shape->stride[1], padding = shape->padding[1];
    int64_t room = shape->width + padding - shape->kernel[1];
    struct interior interior = {.first = (padding + stride - 1) / stride,
                                .end = room < 0 ? 0 : room / stride + 1};

    interior.end = interior.end < shape->out_width ? interior.end : shape->out_width;
    interior.first = interior.first < interior.end ? interior.first : interior.end;
    return interior;
}

/* dweight[kw] += the sum over a row of y of dy times x at kw of its window; `block` channels lie
 * side by side. */
#define DEFINE_ROW(block, columns)                                                         \
    static inline void row_##block##_##columns(const float *x, const float *dy,            \
                                               const struct pool_shape *shape,             \
                                               struct interior interior, float *dweight)   \
    {                                                                                      \
        floats_##block sum[columns];                                                       \
        memcpy(sum, dweight, sizeof(sum));                                                 \
        for (int64_t ow = 0; ow < shape->out_width; ow++) {                                \
            const float *window = x + (ow * shape->stride[1] - shape->padding[1]) * block; \
            int64_t start = ow * shape->stride[1] - shape->padding[1];                     \
            floats_##block d;                                                              \
            memcpy(&d, dy + ow * block, sizeof(d));                                        \
            if (ow >= interior.first && ow < interior.end) {                               \
                _Pragma("GCC unroll 8") for (int kw = 0; kw < columns; kw++)               \
                {                                                                          \
                    floats_##block value;                                                  \
                    memcpy(&value, window + kw * block, sizeof(value));                    \
                    sum[kw] += d * value;                                                  \
                }                                                                          \
                continue;                                                                  \
            }                                                                              \
            _Pragma("GCC unroll 8") for (int kw = 0; kw < columns; kw++)                   \
            {                                                                              \
                floats_##block value;                                                      \
                if (start + kw < 0 || start + kw >= shape->width)                          \
                    continue;                                                              \
                memcpy(&value, window + kw * block, sizeof(value));                        \
                sum[kw] += d * value;                                                      \
            }                                                                              \
        }                                                                                  \
        memcpy(dweight, sum, sizeof(sum));                                                 \
    }

DEFINE_ROW(8, 3)
DEFINE_ROW(8, 5)
DEFINE_ROW(8, 7)
DEFINE_ROW(16, 3)
DEFINE_ROW(16, 5)
DEFINE_ROW(16, 7)

/* The same for any width and block. */
static void row_any(const float *x, const float *dy, const struct pool_shape *shape, int64_t block,
                    float *dweight)
{
    for (int64_t kw = 0; kw < shape->kernel[1]; kw++)
        for (int64_t ow = 0; ow < shape->out_width; ow++) {
            int64_t column = ow * shape->stride[1] - shape->padding[1] + kw;

            if (column < 0 || column >= shape->width)
                continue;
            for (int64_t k = 0; k < block; k++)
                dweight[kw * block + k] += dy[ow * block + k] * x[column * block + k];
        }
}

static void row_of(const float *x, const float *dy, const struct pool_shape *shape,
                   struct interior interior, int64_t block, float *dweight)
{
    const int64_t width = shape->kernel[1];

    if (block == 16 && width == 3)
        row_16_3(x, dy, shape, interior, dweight);
    else if (block == 16 && width == 5)
        row_16_5(x, dy, shape, interior, dweight);
    else if (block == 16 && width == 7)
        row_16_7(x, dy, shape, interior, dweight);
    else if (block == 8 && width == 3)
        row_8_3(x, dy, shape, interior, dweight);
    else if (block == 8 && width == 5)
        row_8_5(x, dy, shape, interior, dweight);
    else if (block == 8 && width == 7)
        row_8_7(x, dy, shape, interior, dweight);
    else
        row_any(x, dy, shape, block, dweight);
}

/* One image's piece of `block` channels. */
static void add_image(const float *x, const float *dy, const struct pool_shape *shape,
                      int64_t block, float *dweight, float *dbias)
{
    struct interior interior = find_interior(shape);

    for (int64_t oh = 0; oh < shape->out_height; oh++) {
        const float *dy_row = dy + oh * shape->out_width * block;

        for (int64_t kh = 0; kh < shape->kernel[0]; kh++) {
            int64_t row = oh * shape->stride[0] - shape->padding[0] + kh;

            if (row >= 0 && row < shape->height)
                row_of(x + row * shape->width * block, dy_row, shape, interior, block,
                       dweight + kh * shape->kernel[1] * block);
        }
        for (int64_t ow = 0; dbias && ow < shape->out_width; ow++)
            for (int64_t k = 0; k < block; k++)
                dbias[k] += dy_row[ow * block + k];
    }
}

void KERNEL_NAME(depthwise_backward_weights)(const float *x, const float *dy,
                                             const struct pool_shape *shape,
                                             const struct image_layout *layout, float *dweight,
                                             float *dbias)
{
    const int64_t block = layout->block, pieces = layout->channels / block;
    const int64_t in = shape->height * shape->width * block;
    const int64_t out = shape->out_height * shape->out_width * block;
    const int64_t window = shape->kernel[0] * shape->kernel[1] * block;

    memset(dweight, 0, (size_t)(pieces * window) * sizeof(float));
    if (dbias)
        memset(dbias, 0, (size_t)layout->channels * sizeof(float));
    for (int64_t n = 0; n < layout->samples; n++)
        for (int64_t p = 0; p < pieces; p++)
            add_image(x + (n * pieces + p) * in, dy + (n * pieces + p) * out, shape, block,
                      dweight + p * window, dbias ? dbias + p * block : NULL);
}
