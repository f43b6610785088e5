/* image_resize.c: see image_resize.h. The arithmetic is that of Pillow's src/libImaging/Resample.c
 * (precompute_coeffs, normalize_coeffs_8bpc and the two passes for 8 bits a channel). */
#include "engine/data/image_resize.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { WEIGHT_BITS = 32 - 8 - 2 };

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static void axis_release(struct image_axis *axis)
{
    free(axis->weight);
    free(axis->first);
    free(axis->count);
    *axis = (struct image_axis){0};
}

/* Computes the weights of one pixel of the result, and returns how many they are. `raw` has as much
 * room as `weight`. */
static int pixel_weigh(int64_t from, int64_t to, int64_t place, double *raw, int64_t *first,
                       int32_t *weight)
{
    double scale = (double)from / (double)to, stretch = scale < 1 ? 1 : scale;
    double center = ((double)place + 0.5) * scale, sum = 0;
    int64_t end = (int64_t)(center + stretch + 0.5);
    int count;

    *first = (int64_t)(center - stretch + 0.5);
    *first = *first < 0 ? 0 : *first;
    end = end > from ? from : end;
    count = (int)(end - *first);
    for (int k = 0; k < count; k++) {
        raw[k] = triangle(((double)(k + *first) - center + 0.5) * (1 / stretch));
        sum += raw[k];
    }
    for (int k = 0; k < count; k++)
        weight[k] = (int32_t)(0.5 + raw[k] / sum * (double)(1 << WEIGHT_BITS));
    return count;
}

int image_weights(int64_t from, int64_t to, int64_t place, int64_t *first,
                  int32_t weight[IMAGE_WEIGHTS_MAX])
{
    double raw[IMAGE_WEIGHTS_MAX];

    return pixel_weigh(from, to, place, raw, first, weight);
}

static int axis_prepare(struct image_axis *axis, int64_t from, int64_t to, struct error *error)
{
    double scale = (double)from / (double)to, stretch = scale < 1 ? 1 : scale;
    double *raw;

    if (axis->from == from && axis->to == to)
        return 0;
    axis_release(axis);
    axis->width = (int)ceil(stretch) * 2 + 1;
    axis->weight = calloc((size_t)to * (size_t)axis->width, sizeof *axis->weight);
    axis->first = calloc((size_t)to, sizeof *axis->first);
    axis->count = calloc((size_t)to, sizeof *axis->count);
    raw = calloc((size_t)axis->width, sizeof *raw);
    if (!axis->weight || !axis->first || !axis->count || !raw) {
        free(raw);
        axis_release(axis);
        return error_set(error, -ENOMEM, "not enough memory to resize an image");
    }
    axis->from = from;
    axis->to = to;
    for (int64_t i = 0; i < to; i++)
        axis->count[i] =
            pixel_weigh(from, to, i, raw, &axis->first[i], axis->weight + i * axis->width);
    free(raw);
    return 0;
}

static uint8_t to_byte(int32_t sum)
{
    int32_t value = sum >> WEIGHT_BITS;

    return (uint8_t)(value > 255 ? 255 : value);
}

uint8_t image_weighted(const uint8_t *pixels, int64_t step, const int32_t *weight, int count)
{
    int32_t sum = 1 << (WEIGHT_BITS - 1);

    for (int k = 0; k < count; k++)
        sum += weight[k] * pixels[k * step];
    return to_byte(sum);
}

/* Resizes [height][from] to [height][to]. */
static void resize_rows(const struct image_axis *axis, const uint8_t *plane, int64_t height,
                        uint8_t *output)
{
    for (int64_t y = 0; y < height; y++, plane += axis->from)
        for (int64_t x = 0; x < axis->to; x++) {
            const int32_t *weight = axis->weight + x * axis->width;
            const uint8_t *at = plane + axis->first[x];
            int32_t sum = 1 << (WEIGHT_BITS - 1); /* so that the shift rounds */

            for (int k = 0; k < axis->count[x]; k++)
                sum += weight[k] * at[k];
            *output++ = to_byte(sum);
        }
}

/* Resizes [from][width] to [to][width]. */
static void resize_columns(const struct image_axis *axis, const uint8_t *plane, int64_t width,
                           uint8_t *output)
{
    for (int64_t y = 0; y < axis->to; y++) {
        const int32_t *weight = axis->weight + y * axis->width;
        const uint8_t *at = plane + axis->first[y] * width;

        for (int64_t x = 0; x < width; x++) {
            int32_t sum = 1 << (WEIGHT_BITS - 1);

            for (int k = 0; k < axis->count[y]; k++)
                sum += weight[k] * at[k * width + x];
            *output++ = to_byte(sum);
        }
    }
}

int image_resize(struct image_resizer *resizer, const uint8_t *planes, int channels,
                 int64_t from_height, int64_t from_width, uint8_t *output, int64_t to_height,
                 int64_t to_width, struct error *error)
{
    size_t between = (size_t)(from_height * to_width);
    int r = axis_prepare(&resizer->rows, from_width, to_width, error);

    if (r == 0)
        r = axis_prepare(&resizer->columns, from_height, to_height, error);
    if (r < 0)
        return r;
    if (between > resizer->capacity) {
        uint8_t *grown = realloc(resizer->between, between);

        if (!grown)
            return error_set(error, -ENOMEM, "not enough memory to resize an image");
        resizer->between = grown;
        resizer->capacity = between;
    }
    for (int c = 0; c < channels; c++) {
        resize_rows(&resizer->rows, planes + (size_t)(c * from_height * from_width), from_height,
                    resizer->between);
        resize_columns(&resizer->columns, resizer->between, to_width,
                       output + (size_t)(c * to_height * to_width));
    }
    return 0;
}

void image_resizer_release(struct image_resizer *resizer)
{
    axis_release(&resizer->rows);
    axis_release(&resizer->columns);
    free(resizer->between);
    *resizer = (struct image_resizer){0};
}
