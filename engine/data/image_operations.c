/* image_operations.c: see image_operations.h. The arithmetic is that of Pillow 13.0.0: Blend.c,
 * Convert.c, Filter.c and Geometry.c of src/libImaging, ImageOps.py, ImageEnhance.py, Image.py. */
#include "engine/data/image_operations.h"

#include <math.h>
#include <string.h>

static size_t plane_bytes(const struct image_planes *image)
{
    return (size_t)(image->height * image->width);
}

static size_t image_bytes(const struct image_planes *image)
{
    return plane_bytes(image) * (size_t)image->channels;
}

size_t image_operation_scratch(int channels, int64_t height, int64_t width)
{
    return (size_t)(height * width) * (size_t)(channels + 1);
}

/* ---- geometry ---- */

/* Resizes `count` lines of `from` pixels, `step` apart, to `to` pixels each. */
static void lines_resize(const uint8_t *input, int64_t from, int64_t step, int64_t line_step,
                         int64_t count, uint8_t *output, int64_t to, int64_t output_step,
                         int64_t output_line_step)
{
    for (int64_t i = 0; i < to; i++) {
        int32_t weight[IMAGE_WEIGHTS_MAX];
        int64_t first;
        int taps = image_weights(from, to, i, &first, weight);

        for (int64_t line = 0; line < count; line++)
            output[line * output_line_step + i * output_step] =
                image_weighted(input + line * line_step + first * step, step, weight, taps);
    }
}

void image_crop_resize(struct image_planes *image, int64_t top, int64_t left, int64_t height,
                       int64_t width, uint8_t *scratch)
{
    for (int c = 0; c < image->channels; c++) {
        uint8_t *plane = image->bytes + (size_t)c * plane_bytes(image);

        lines_resize(plane + top * image->width + left, width, 1, image->width, height, scratch,
                     image->width, 1, image->width);
        lines_resize(scratch, height, image->width, 1, image->width, plane, image->height,
                     image->width, 1);
    }
}

void image_flip_vertically(struct image_planes *image, uint8_t *scratch)
{
    size_t width = (size_t)image->width;

    for (int c = 0; c < image->channels; c++) {
        uint8_t *top = image->bytes + (size_t)c * plane_bytes(image);
        uint8_t *bottom = top + plane_bytes(image) - width;

        for (; top < bottom; top += width, bottom -= width) {
            memcpy(scratch, top, width);
            memcpy(top, bottom, width);
            memcpy(bottom, scratch, width);
        }
    }
}

/* In 65536ths. */
static int64_t fixed(double value)
{
    return (int64_t)floor(value * 65536 + 0.5);
}

void image_transform(struct image_planes *image, const double m[6], uint8_t *scratch)
{
    const int64_t width = image->width, height = image->height;
    const int64_t across = fixed(m[0]), down = fixed(m[3]);
    int64_t first_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
    int64_t first_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);

    memcpy(scratch, image->bytes, image_bytes(image));
    for (int64_t y = 0; y < height; y++, first_x += fixed(m[1]), first_y += fixed(m[4])) {
        for (int64_t x = 0; x < width; x++) {
            int64_t from_x = (first_x + x * across) >> 16, from_y = (first_y + x * down) >> 16;
            bool inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;

            for (int c = 0; c < image->channels; c++) {
                size_t plane = (size_t)c * plane_bytes(image);

                image->bytes[plane + (size_t)(y * width + x)] =
                    inside ? scratch[plane + (size_t)(from_y * width + from_x)] : 0;
            }
        }
    }
}

/* round(value, 15) of Python, for values up to 1 */
static double round_15(double value)
{
    return round(value * 1e15) / 1e15;
}

/* Image.rotate() transposes at right angles. */
static bool rotate_exactly(struct image_planes *image, double degrees, uint8_t *scratch)
{
    const int64_t width = image->width, height = image->height;
    bool half = degrees == 180, square = width == height;

    if (degrees == 0)
        return true;
    if (!half && !(square && (degrees == 90 || degrees == 270)))
        return false;
    memcpy(scratch, image->bytes, image_bytes(image));
    for (int c = 0; c < image->channels; c++) {
        const uint8_t *from = scratch + (size_t)c * plane_bytes(image);
        uint8_t *to = image->bytes + (size_t)c * plane_bytes(image);

        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++)
                *to++ = half            ? from[(height - 1 - y) * width + width - 1 - x]
                        : degrees == 90 ? from[x * width + width - 1 - y]
                                        : from[(width - 1 - x) * width + y];
    }
    return true;
}

void image_rotate(struct image_planes *image, double degrees, uint8_t *scratch)
{
    double angle = fmod(degrees, 360), radians, m[6], x, y;

    if (angle < 0)
        angle += 360;
    if (rotate_exactly(image, angle, scratch))
        return;
    x = (double)image->width / 2;
    y = (double)image->height / 2;
    radians = -(angle * (M_PI / 180));
    m[0] = round_15(cos(radians));
    m[1] = round_15(sin(radians));
    m[3] = round_15(-sin(radians));
    m[4] = round_15(cos(radians));
    m[2] = m[0] * -x + m[1] * -y + x;
    m[5] = m[3] * -x + m[4] * -y + y;
    image_transform(image, m, scratch);
}

/* ---- colours ---- */

/* ITU-R BT.601, as convert("L"). */
static uint8_t grey_of(const struct image_planes *image, size_t pixel)
{
    const uint8_t *at = image->bytes + pixel;
    size_t plane = plane_bytes(image);

    return image->channels == 1
               ? *at
               : (uint8_t)((19595u * at[0] + 38470u * at[plane] + 7471u * at[2 * plane] + 32768u) >>
                           16);
}

/* Image.blend(): from `origin` at 0 to `value` at 1, and beyond. */
static uint8_t blend(uint8_t origin, uint8_t value, float factor)
{
    float blended = (float)origin + factor * (float)((int)value - (int)origin);

    return blended <= 0 ? 0 : blended >= 255 ? 255 : (uint8_t)blended;
}

static void blend_with(struct image_planes *image, uint8_t origin, float factor)
{
    for (size_t i = 0; i < image_bytes(image); i++)
        image->bytes[i] = blend(origin, image->bytes[i], factor);
}

void image_brightness(struct image_planes *image, float factor)
{
    blend_with(image, 0, factor);
}

void image_contrast(struct image_planes *image, float factor)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < plane_bytes(image); i++)
        sum += grey_of(image, i);
    blend_with(image, (uint8_t)((double)sum / (double)plane_bytes(image) + 0.5), factor);
}

void image_saturation(struct image_planes *image, float factor)
{
    size_t plane = plane_bytes(image);

    for (size_t i = 0; i < plane; i++) {
        uint8_t grey = grey_of(image, i);

        for (int c = 0; c < image->channels; c++)
            image->bytes[(size_t)c * plane + i] =
                blend(grey, image->bytes[(size_t)c * plane + i], factor);
    }
}

/* ImageFilter.SMOOTH: the neighbours weigh 1, the pixel 5; the frame stays as it is. */
static uint8_t smooth(const uint8_t *at, int64_t width)
{
    const float one = 1 / 13.0f, five = 5 / 13.0f;
    float sum = 0.5f;

    for (int64_t row = 1; row >= -1; row--) {
        const uint8_t *line = at + row * width;

        sum += (float)line[-1] * one + (float)line[0] * (row ? one : five) + (float)line[1] * one;
    }
    return sum <= 0 ? 0 : sum >= 255 ? 255 : (uint8_t)sum;
}

void image_sharpness(struct image_planes *image, float factor, uint8_t *scratch)
{
    const int64_t width = image->width, height = image->height;

    memcpy(scratch, image->bytes, image_bytes(image));
    for (int c = 0; c < image->channels; c++)
        for (int64_t y = 1; y < height - 1; y++)
            for (int64_t x = 1; x < width - 1; x++) {
                size_t i = (size_t)c * plane_bytes(image) + (size_t)(y * width + x);

                image->bytes[i] = blend(smooth(scratch + i, width), scratch[i], factor);
            }
}

/* ---- hue ---- */

static uint8_t to_byte(double value)
{
    int whole = (int)value;

    return (uint8_t)(whole < 0 ? 0 : whole > 255 ? 255 : whole);
}

static void hsv_of(const uint8_t rgb[3], uint8_t hsv[3])
{
    uint8_t r = rgb[0], g = rgb[1], b = rgb[2];
    uint8_t most = r > g ? r : g, least = r < g ? r : g;
    float range, hue, red, green, blue;

    most = most > b ? most : b;
    least = least < b ? least : b;
    hsv[0] = hsv[1] = 0;
    hsv[2] = most;
    if (most == least)
        return;
    range = (float)(most - least);
    red = (float)(most - r) / range;
    green = (float)(most - g) / range;
    blue = (float)(most - b) / range;
    hue = r == most   ? blue - green
          : g == most ? (float)(2.0 + (double)red - (double)blue)
                      : (float)(4.0 + (double)green - (double)red);
    hue = (float)fmod((double)hue / 6.0 + 1.0, 1.0);
    hsv[0] = to_byte((double)hue * 255.0);
    hsv[1] = to_byte((double)(range / (float)most) * 255.0);
}

static void rgb_of(const uint8_t hsv[3], uint8_t rgb[3])
{
    double value = hsv[2];
    float fraction, saturation;
    uint8_t p, q, t;
    int sector;

    if (hsv[1] == 0) {
        memset(rgb, hsv[2], 3);
        return;
    }
    sector = (int)floor((double)(float)hsv[0] * 6.0 / 255.0);
    fraction = (float)((double)(float)hsv[0] * 6.0 / 255.0 - (double)(float)sector);
    saturation = (float)((double)(float)hsv[1] / 255.0);
    p = to_byte(round(value * (1.0 - (double)saturation)));
    q = to_byte(round(value * (1.0 - (double)(saturation * fraction))));
    t = to_byte(round(value * (1.0 - (double)saturation * (1.0 - (double)fraction))));
    sector %= 6;
    rgb[0] = sector == 0 || sector == 5 ? hsv[2] : sector == 1 ? q : sector == 4 ? t : p;
    rgb[1] = sector == 1 || sector == 2 ? hsv[2] : sector == 3 ? q : sector == 0 ? t : p;
    rgb[2] = sector == 3 || sector == 4 ? hsv[2] : sector == 5 ? q : sector == 2 ? t : p;
}

void image_hue(struct image_planes *image, double shift)
{
    size_t plane = plane_bytes(image);
    int moved = (int)(shift * 255);

    if (image->channels != 3)
        return;
    for (size_t i = 0; i < plane; i++) {
        uint8_t *at = image->bytes + i, hsv[3], rgb[3] = {at[0], at[plane], at[2 * plane]};

        hsv_of(rgb, hsv);
        hsv[0] = (uint8_t)(hsv[0] + moved);
        rgb_of(hsv, rgb);
        for (size_t c = 0; c < 3; c++)
            at[c * plane] = rgb[c];
    }
}

/* ---- tables ---- */

static void table_apply(struct image_planes *image, const uint8_t table[256])
{
    for (size_t i = 0; i < image_bytes(image); i++)
        image->bytes[i] = table[image->bytes[i]];
}

void image_posterize(struct image_planes *image, int bits)
{
    uint8_t table[256];

    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i & ~((1 << (8 - bits)) - 1));
    table_apply(image, table);
}

void image_solarize(struct image_planes *image, double threshold)
{
    uint8_t table[256];

    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i < threshold ? i : 255 - i);
    table_apply(image, table);
}

/* How often each number occurs in a plane. */
static void histogram(const struct image_planes *plane, int64_t counts[256])
{
    memset(counts, 0, 256 * sizeof *counts);
    for (size_t i = 0; i < plane_bytes(plane); i++)
        counts[plane->bytes[i]]++;
}

static struct image_planes plane_of(const struct image_planes *image, int channel)
{
    return (struct image_planes){image->bytes + (size_t)channel * plane_bytes(image), 1,
                                 image->height, image->width};
}

void image_autocontrast(struct image_planes *image)
{
    for (int c = 0; c < image->channels; c++) {
        struct image_planes plane = plane_of(image, c);
        int64_t counts[256];
        uint8_t table[256];
        int low = 0, high = 255;

        histogram(&plane, counts);
        while (low < 255 && !counts[low])
            low++;
        while (high > 0 && !counts[high])
            high--;
        if (high <= low)
            continue;
        double scale = 255.0 / (high - low), offset = -low * scale;
        for (int i = 0; i < 256; i++)
            table[i] = to_byte(i * scale + offset);
        table_apply(&plane, table);
    }
}

void image_equalize(struct image_planes *image)
{
    for (int c = 0; c < image->channels; c++) {
        struct image_planes plane = plane_of(image, c);
        int64_t counts[256], step, sum;
        uint8_t table[256];
        int high = 255;

        histogram(&plane, counts);
        while (high > 0 && !counts[high])
            high--;
        step = ((int64_t)plane_bytes(&plane) - counts[high]) / 255;
        if (!step) /* there is one number alone, or too few pixels */
            continue;
        sum = step / 2;
        for (int i = 0; i < 256; i++) {
            table[i] = to_byte((double)(sum / step));
            sum += counts[i];
        }
        table_apply(&plane, table);
    }
}
