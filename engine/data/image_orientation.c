/* image_orientation.c: see image_orientation.h. EXIF 2.32 (JEITA CP-3451X), section 4.6.2: the
 * directory is that of TIFF 6.0, section 2. */
#include "engine/data/image_orientation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_ORIENTATION = 0x112, ENTRY_BYTES = 12 };
enum { TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4 };

static uint32_t number(const uint8_t *bytes, int length, bool big)
{
    uint32_t value = 0;

    for (int i = 0; i < length; i++)
        value |= (uint32_t)bytes[i] << 8 * (big ? length - 1 - i : i);
    return value;
}

static int entry_orientation(const uint8_t *entry, bool big)
{
    uint32_t type = number(entry + 2, 2, big), value;

    if (number(entry, 2, big) != TAG_ORIENTATION || number(entry + 4, 4, big) != 1)
        return 1;
    value = type == TYPE_BYTE    ? entry[8]
            : type == TYPE_SHORT ? number(entry + 8, 2, big)
            : type == TYPE_LONG  ? number(entry + 8, 4, big)
                                 : 1;
    return value >= 1 && value <= 8 ? (int)value : 1;
}

int image_exif_orientation(const uint8_t *bytes, size_t size)
{
    bool big;
    size_t place, count;

    if (size >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) {
        bytes += 6;
        size -= 6;
    }
    if (size < 8 || (memcmp(bytes, "MM\0*", 4) != 0 && memcmp(bytes, "II*\0", 4) != 0))
        return 1;
    big = bytes[0] == 'M';
    place = number(bytes + 4, 4, big);
    if (place > size - 2)
        return 1;
    count = number(bytes + place, 2, big);
    place += 2;
    for (size_t i = 0; i < count && (size - place) / ENTRY_BYTES > i; i++) {
        int orientation = entry_orientation(bytes + place + i * ENTRY_BYTES, big);

        if (orientation != 1)
            return orientation;
    }
    return 1;
}

void image_orient_size(struct image *image)
{
    int64_t width = image->width;

    if (image->orientation < 5)
        return;
    image->width = image->height;
    image->height = width;
}

/* Where the pixel at (x, y) of the turned image is in the stored one, of width x height. */
static int64_t source(int orientation, int64_t x, int64_t y, int64_t width, int64_t height)
{
    int64_t across = orientation >= 5 ? y : x, down = orientation >= 5 ? x : y;

    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        across = width - 1 - across;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        down = height - 1 - down;
    return down * width + across;
}

int image_orient(const char *path, struct image *image, struct error *error)
{
    int64_t width = image->width, height = image->height;
    size_t channels = (size_t)image->channels, bytes = (size_t)(width * height) * channels;
    uint8_t *turned, *to;

    if (image->orientation <= 1)
        return 0;
    turned = malloc(bytes ? bytes : 1);
    if (!turned)
        return error_set(error, -ENOMEM, "not enough memory to turn the image %s", path);
    image_orient_size(image);
    to = turned;
    for (int64_t y = 0; y < image->height; y++)
        for (int64_t x = 0; x < image->width; x++, to += channels)
            memcpy(to,
                   image->pixels +
                       (size_t)source(image->orientation, x, y, width, height) * channels,
                   channels);
    free(image->pixels);
    image->pixels = turned;
    image->capacity = bytes;
    return 0;
}
