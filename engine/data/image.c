/* image.c: see image.h. */
#include "engine/data/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t png_signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
static const uint8_t jpeg_signature[] = {0xff, 0xd8, 0xff};

static bool begins_with(const uint8_t *bytes, size_t size, const uint8_t *signature, size_t length)
{
    return size >= length && memcmp(bytes, signature, length) == 0;
}

static int read_any(const char *path, const uint8_t *bytes, size_t size, bool inspect,
                    struct image *image, struct error *error)
{
    if (begins_with(bytes, size, png_signature, sizeof png_signature))
        return image_png_read(path, bytes, size, inspect, image, error);
    if (begins_with(bytes, size, jpeg_signature, sizeof jpeg_signature))
        return image_jpeg_read(path, bytes, size, inspect, image, error);
    if (size == 0)
        return error_set(error, -EINVAL, "the image %s is empty; fetch it again or remove it",
                         path);
    return error_set(error, -EINVAL,
                     "%s is neither PNG nor JPEG, whatever its name: it begins with the bytes %02x "
                     "%02x %02x %02x; convert or remove it",
                     path, bytes[0], size > 1 ? bytes[1] : 0, size > 2 ? bytes[2] : 0,
                     size > 3 ? bytes[3] : 0);
}

int image_inspect(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                  struct error *error)
{
    return read_any(path, bytes, size, true, image, error);
}

int image_decode(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                 struct error *error)
{
    return read_any(path, bytes, size, false, image, error);
}

void image_release(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0};
}

int image_reserve(const char *path, struct image *image, struct error *error)
{
    size_t bytes;

    if (image->width > IMAGE_SIDE_MAX || image->height > IMAGE_SIDE_MAX ||
        image->width * image->height > IMAGE_PIXELS_MAX)
        return error_set(error, -EINVAL,
                         "%s has %lld x %lld pixels; images may have %d in all: make it smaller",
                         path, (long long)image->width, (long long)image->height, IMAGE_PIXELS_MAX);
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
