/* image.h: reads PNG and JPEG files as bytes of grey or RGB. The content decides the format, not
 * the file's name. A damaged or incomplete image is refused; no part is filled in.
 *
 * Alpha is dropped, palettes become RGB, and of 16 bits the upper 8 are kept. Gamma, colour
 * profiles and the orientation noted by cameras are not applied. Pillow's
 * Image.open().convert("RGB"), which torchvision's ImageFolder uses, does the same. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    IMAGE_SIDE_MAX = 65500, /* JPEG's own limit */
    /* Pillow's limit, beyond which it warns of a "decompression bomb"
     * (PIL.Image.MAX_IMAGE_PIXELS) */
    IMAGE_PIXELS_MAX = 89478485
};

struct image {
    int64_t width, height;
    int channels;    /* 1: grey, 3: RGB, as the file has it */
    uint8_t *pixels; /* owned, [height][width][channels]; kept for the next image */
    size_t capacity;
};

/* Reads width and height alone. `path` is for the sentence. -EINVAL, -ENOMEM. */
int image_inspect(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                  struct error *error);
/* Reads all of it. */
int image_decode(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                 struct error *error);
void image_release(struct image *image);

/* Writes planes [channels][height][width], channels 1 or 3. Grey from RGB is Pillow's
 * (19595 R + 38470 G + 7471 B + 32768) / 65536: ITU-R BT.601. */
void image_to_planes(const struct image *image, int channels, uint8_t *planes);

/* For the decoders: makes room for width x height x channels. */
int image_reserve(const char *path, struct image *image, struct error *error);
/* The decoders, each for bytes that begin as its files do. `inspect`: the size alone. */
int image_png_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                   struct image *image, struct error *error);
int image_jpeg_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                    struct image *image, struct error *error);
