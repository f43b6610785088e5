/* depthwise.c: depthwise convolutions and their gradients. For the gradient of the weights, oneDNN
 * 2.6 has a kernel only for images in blocks of channels, for kernels up to 3 wide and for images
 * no smaller than the kernel. Otherwise it multiplies matrices channel by channel. An example is
 * the layer of EfficientNet-B0 with 672 channels of 2x2 and a 5x5 kernel, for 128 channels-last
 * images on one thread of a Sapphire Rapids. oneDNN 2.6.3 takes 50 ms for it, and 21 ms to add up
 * the slices' gradients; these loops take 0.34 and 0.05 ms.
 *
 * Images are [channels / block][pixel][block], the weights [channels / block][kh][kw][block]. The
 * loops compute one pixel of the result after the other. For a pixel they take the channels of a
 * block in strips whose sums stay in registers. So they read memory in its order, and skip the part
 * of the window outside the image. With images of 2x2 that is most of it. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

#include <string.h>

typedef float floats_1 __attribute__((vector_size(4)));
typedef int32_t integers_1 __attribute__((vector_size(4)));
typedef float floats_8 __attribute__((vector_size(32)));
typedef int32_t integers_8 __attribute__((vector_size(32)));
typedef float floats_16 __attribute__((vector_size(64)));
typedef int32_t integers_16 __attribute__((vector_size(64)));

enum { WIDE = 4 }; /* how many vectors of 16 channels a wide strip has */

/* The taps of the kernel that meet the image along one axis: `count` taps, from `tap` on in steps
 * of `tap_step`, and the positions of the source that they read. */
struct reach {
    int64_t count, tap, tap_step, position, position_step;
};

/* For the convolution: the taps for which position * stride - padding + tap is in the image. */
static struct reach forward_reach(const struct pool_shape *shape, int axis, int64_t position,
                                  int64_t extent)
{
    int64_t start = position * shape->stride[axis] - shape->padding[axis];
    int64_t first = start < 0 ? -start : 0, end = shape->kernel[axis];

    end = start + end > extent ? extent - start : end;
    return (struct reach){.count = end > first ? end - first : 0,
                          .tap = first,
                          .tap_step = 1,
                          .position = start + first,
                          .position_step = 1};
}

/* For its gradient by the images: the taps of those windows, of `out` ones, that contain
 * `position`. */
static struct reach backward_reach(const struct pool_shape *shape, int axis, int64_t position,
                                   int64_t out)
{
    int64_t stride = shape->stride[axis], from = position + shape->padding[axis];
    int64_t last = from / stride, tap = from % stride;

    if (last >= out) {
        tap += (last - out + 1) * stride;
        last = out - 1;
    }
    struct reach reach = {.tap = tap, .tap_step = stride, .position = last, .position_step = -1};

    if (tap < shape->kernel[axis])
        reach.count = (shape->kernel[axis] - 1 - tap) / stride + 1;
    reach.count = reach.count > last + 1 ? last + 1 : reach.count;
    return reach;
}

/* The products of source and weights whose sum is one pixel of the result. */
struct window {
    int64_t rows, columns;
    int64_t source_row, source_column, weight_row, weight_column; /* steps, in floats */
};

/* result = bias + the sum over the window, for `count` vectors of channels. */
#define DEFINE_PIXEL(lanes, count)                                                                 \
    static ALWAYS_INLINE void pixel_##lanes##_##count(const float *source, const float *weight,    \
                                                      const struct window *window,                 \
                                                      const float *bias, bool relu, float *result) \
    {                                                                                              \
        floats_##lanes sum[count] = {0};                                                           \
        if (bias)                                                                                  \
            memcpy(sum, bias, sizeof(sum));                                                        \
        for (int64_t r = 0; r < window->rows; r++)                                                 \
            for (int64_t c = 0; c < window->columns; c++) {                                        \
                const float *s = source + r * window->source_row + c * window->source_column;      \
                const float *w = weight + r * window->weight_row + c * window->weight_column;      \
                floats_##lanes a[count], b[count];                                                 \
                memcpy(a, s, sizeof(a));                                                           \
                memcpy(b, w, sizeof(b));                                                           \
                _Pragma("GCC unroll 4") for (int k = 0; k < count; k++) sum[k] += a[k] * b[k];     \
            }                                                                                      \
        if (relu)                                                                                  \
            _Pragma("GCC unroll 4") for (int k = 0; k < count; k++) sum[k] =                       \
                (floats_##lanes)((integers_##lanes)sum[k] & ~(integers_##lanes)(sum[k] < 0.0f));   \
        memcpy(result, sum, sizeof(sum));                                                          \
    }

DEFINE_PIXEL(16, 4)
DEFINE_PIXEL(16, 1)
DEFINE_PIXEL(8, 1)
DEFINE_PIXEL(1, 1)

/* Computes all channels of a block. */
static inline void correlate_pixel(const float *source, const float *weight,
                                   const struct window *window, const float *bias, bool relu,
                                   int64_t block, float *result)
{
    int64_t c = 0;

    for (; c + 16 * WIDE <= block; c += 16 * WIDE)
        pixel_16_4(source + c, weight + c, window, bias ? bias + c : NULL, relu, result + c);
    for (; c + 16 <= block; c += 16)
        pixel_16_1(source + c, weight + c, window, bias ? bias + c : NULL, relu, result + c);
    for (; c + 8 <= block; c += 8)
        pixel_8_1(source + c, weight + c, window, bias ? bias + c : NULL, relu, result + c);
    for (; c < block; c++)
        pixel_1_1(source + c, weight + c, window, bias ? bias + c : NULL, relu, result + c);
}

/* Computes a pixel of the result from the taps that reach it. */
static inline void reach_pixel(const float *source, int64_t source_width, const float *weight,
                               const struct pool_shape *shape, const struct reach *row,
                               const struct reach *column, const float *bias, bool relu,
                               int64_t block, float *result)
{
    struct window window = {.rows = row->count,
                            .columns = column->count,
                            .source_row = row->position_step * source_width * block,
                            .source_column = column->position_step * block,
                            .weight_row = row->tap_step * shape->kernel[1] * block,
                            .weight_column = column->tap_step * block};

    correlate_pixel(source + (row->position * source_width + column->position) * block,
                    weight + (row->tap * shape->kernel[1] + column->tap) * block, &window, bias,
                    relu, block, result);
}

void KERNEL_NAME(depthwise_forward)(const float *x, const float *weight, const float *bias,
                                    bool relu, const struct pool_shape *shape,
                                    const struct image_layout *layout, float *y)
{
    const int64_t block = layout->block, pieces = layout->channels / block;
    const int64_t in = shape->height * shape->width * block;
    const int64_t window = shape->kernel[0] * shape->kernel[1] * block;

    for (int64_t i = 0; i < layout->samples * pieces; i++, x += in) {
        const float *piece_bias = bias ? bias + i % pieces * block : NULL;

        for (int64_t oh = 0; oh < shape->out_height; oh++) {
            struct reach row = forward_reach(shape, 0, oh, shape->height);

            for (int64_t ow = 0; ow < shape->out_width; ow++, y += block) {
                struct reach column = forward_reach(shape, 1, ow, shape->width);

                reach_pixel(x, shape->width, weight + i % pieces * window, shape, &row, &column,
                            piece_bias, relu, block, y);
            }
        }
    }
}

void KERNEL_NAME(depthwise_backward_data)(const float *dy, const float *weight,
                                          const struct pool_shape *shape,
                                          const struct image_layout *layout, float *dx)
{
    const int64_t block = layout->block, pieces = layout->channels / block;
    const int64_t out = shape->out_height * shape->out_width * block;
    const int64_t window = shape->kernel[0] * shape->kernel[1] * block;

    for (int64_t i = 0; i < layout->samples * pieces; i++, dy += out)
        for (int64_t h = 0; h < shape->height; h++) {
            struct reach row = backward_reach(shape, 0, h, shape->out_height);

            for (int64_t w = 0; w < shape->width; w++, dx += block) {
                struct reach column = backward_reach(shape, 1, w, shape->out_width);

                reach_pixel(dy, shape->out_width, weight + i % pieces * window, shape, &row,
                            &column, NULL, false, block, dx);
            }
        }
}

/* Finds the positions of the result, along one axis, at which the tap meets the image. */
static void tap_span(const struct pool_shape *shape, int axis, int64_t tap, int64_t extent,
                     int64_t out, int64_t *first, int64_t *end)
{
    int64_t stride = shape->stride[axis], before = shape->padding[axis] - tap;
    int64_t room = extent - 1 + before;

    *first = before > 0 ? (before + stride - 1) / stride : 0;
    *end = room < 0 ? 0 : room / stride + 1;
    *end = *end < out ? *end : out;
}

/* dweight += the sum over rows × columns of dy and x at one tap, for `count` vectors of
 * channels. */
#define DEFINE_TAP(lanes, count)                                                                 \
    static ALWAYS_INLINE void tap_##lanes##_##count(const float *dy, const float *x,             \
                                                    const struct window *window, float *dweight) \
    {                                                                                            \
        floats_##lanes sum[count];                                                               \
        memcpy(sum, dweight, sizeof(sum));                                                       \
        for (int64_t r = 0; r < window->rows; r++)                                               \
            for (int64_t c = 0; c < window->columns; c++) {                                      \
                const float *s = x + r * window->source_row + c * window->source_column;         \
                const float *d = dy + r * window->weight_row + c * window->weight_column;        \
                floats_##lanes a[count], b[count];                                               \
                memcpy(a, s, sizeof(a));                                                         \
                memcpy(b, d, sizeof(b));                                                         \
                _Pragma("GCC unroll 4") for (int k = 0; k < count; k++) sum[k] += a[k] * b[k];   \
            }                                                                                    \
        memcpy(dweight, sum, sizeof(sum));                                                       \
    }

DEFINE_TAP(16, 4)
DEFINE_TAP(16, 1)
DEFINE_TAP(8, 1)
DEFINE_TAP(1, 1)

static inline void add_tap(const float *dy, const float *x, const struct window *window,
                           int64_t block, float *dweight)
{
    int64_t c = 0;

    for (; c + 16 * WIDE <= block; c += 16 * WIDE)
        tap_16_4(dy + c, x + c, window, dweight + c);
    for (; c + 16 <= block; c += 16)
        tap_16_1(dy + c, x + c, window, dweight + c);
    for (; c + 8 <= block; c += 8)
        tap_8_1(dy + c, x + c, window, dweight + c);
    for (; c < block; c++)
        tap_1_1(dy + c, x + c, window, dweight + c);
}

/* Adds the gradient of one image's piece of `block` channels. */
static void add_image(const float *x, const float *dy, const struct pool_shape *shape,
                      int64_t block, float *dweight)
{
    for (int64_t kh = 0; kh < shape->kernel[0]; kh++) {
        int64_t top, bottom;

        tap_span(shape, 0, kh, shape->height, shape->out_height, &top, &bottom);
        for (int64_t kw = 0; kw < shape->kernel[1]; kw++, dweight += block) {
            int64_t left, right;
            struct window window;

            tap_span(shape, 1, kw, shape->width, shape->out_width, &left, &right);
            if (top >= bottom || left >= right)
                continue;
            window = (struct window){.rows = bottom - top,
                                     .columns = right - left,
                                     .source_row = shape->stride[0] * shape->width * block,
                                     .source_column = shape->stride[1] * block,
                                     .weight_row = shape->out_width * block,
                                     .weight_column = block};
            add_tap(dy + (top * shape->out_width + left) * block,
                    x + ((top * shape->stride[0] - shape->padding[0] + kh) * shape->width +
                         left * shape->stride[1] - shape->padding[1] + kw) *
                            block,
                    &window, block, dweight);
        }
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
        for (int64_t p = 0; p < pieces; p++, x += in, dy += out) {
            add_image(x, dy, shape, block, dweight + p * window);
            for (int64_t i = 0; dbias && i < out; i += block)
                for (int64_t k = 0; k < block; k++)
                    dbias[p * block + k] += dy[i + k];
        }
}
