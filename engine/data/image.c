/* image.c: see image.h. */
#include "engine/data/image.h"

#include "engine/data/image_orientation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The kinds of files, by the bytes that they begin with. */
static const struct image_kind {
    const char *begin;
    size_t length, skipped; /* bytes behind them that may have any value */
    const char *then;       /* follows those; NULL: nothing does */
    int (*read)(const char *path, const uint8_t *bytes, size_t size, int inspect,
                struct image *image, struct error *error);
} kinds[] = {
    {"\x89PNG\r\n\x1a\n", 8, 0, NULL, image_png_read},
    {"\xff\xd8\xff", 3, 0, NULL, image_jpeg_read},
    {"RIFF", 4, 4, "WEBP", image_webp_read},
    {"BM", 2, 0, NULL, image_bmp_read},
    {"II*\0", 4, 0, NULL, image_tiff_read},
    {"MM\0*", 4, 0, NULL, image_tiff_read},
    {"II+\0", 4, 0, NULL, image_tiff_read},
    {"MM\0+", 4, 0, NULL, image_tiff_read},
};

static bool is_of_kind(const struct image_kind *kind, const uint8_t *bytes, size_t size)
{
    size_t place = kind->length + kind->skipped, then = kind->then ? strlen(kind->then) : 0;

    return size >= place + then && memcmp(bytes, kind->begin, kind->length) == 0 &&
           (!kind->then || memcmp(bytes + place, kind->then, then) == 0);
}

bool image_is_known(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].length > 2 && is_of_kind(&kinds[i], bytes, size))
            return true;
    return false;
}

static int read_any(const char *path, const uint8_t *bytes, size_t size, bool inspect,
                    struct image *image, struct error *error)
{
    image->orientation = 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_of_kind(&kinds[i], bytes, size))
            return kinds[i].read(path, bytes, size, inspect, image, error);
    if (size == 0)
        return error_set(error, -EINVAL, "the image %s is empty; fetch it again or remove it",
                         path);
    return error_set(error, -EINVAL,
                     "%s is neither PNG, JPEG, WebP, BMP nor TIFF, whatever its name: it begins "
                     "with the bytes %02x %02x %02x %02x; convert or remove it",
                     path, bytes[0], size > 1 ? bytes[1] : 0, size > 2 ? bytes[2] : 0,
                     size > 3 ? bytes[3] : 0);
}

static int size_check(const char *path, const struct image *image, struct error *error)
{
    return image->width > IMAGE_SIDE_MAX || image->height > IMAGE_SIDE_MAX ||
                   image->width * image->height > IMAGE_PIXELS_MAX
               ? error_set(error, -EINVAL,
                           "%s has %lld x %lld pixels; images may have %d in all: make it smaller",
                           path, (long long)image->width, (long long)image->height,
                           IMAGE_PIXELS_MAX)
               : 0;
}

int image_inspect(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                  struct error *error)
{
    int r = read_any(path, bytes, size, true, image, error);

    if (r == 0)
        r = size_check(path, image, error);
    if (r == 0)
        image_orient_size(image);
    return r;
}

int image_decode(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                 struct error *error)
{
    int r = read_any(path, bytes, size, false, image, error);

    return r < 0 ? r : image_orient(path, image, error);
}

void image_release(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0};
}

int image_reserve(const char *path, struct image *image, struct error *error)
{
    int r = size_check(path, image, error);
    size_t bytes;

    if (r < 0)
        return r;
    bytes = (size_t)(image->width * image->height) * (size_t)image->channels;
    if (bytes > image->capacity) {
        uint8_t *grown = realloc(image->pixels, bytes);

        if (!grown)
            return error_set(error, -ENOMEM, "not enough memory to read the image %s", path);
        image->pixels = grown;
        image->capacity = bytes;
    }
    return 0;
}

/* a x b / 255, rounded. */
static unsigned product(unsigned a, unsigned b)
{
    unsigned sum = a * b + 128;

    return ((sum >> 8) + sum) >> 8;
}

void image_cmyk_to_rgb(const uint8_t cmyk[4], uint8_t rgb[3])
{
    unsigned white = 255u - cmyk[3];

    for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t)(white - product(cmyk[c], white));
}

void image_to_planes(const struct image *image, int channels, uint8_t *planes)
{
    size_t pixels = (size_t)(image->width * image->height);
    const uint8_t *from = image->pixels;

    if (image->channels == 1) {
        for (int c = 0; c < channels; c++)
            memcpy(planes + (size_t)c * pixels, from, pixels);
    } else if (channels == 3) {
        for (size_t i = 0; i < pixels; i++, from += 3) {
            planes[i] = from[0];
            planes[pixels + i] = from[1];
            planes[2 * pixels + i] = from[2];
        }
    } else {
        for (size_t i = 0; i < pixels; i++, from += 3)
            planes[i] =
                (uint8_t)((19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 32768u) >> 16);
    }
}
