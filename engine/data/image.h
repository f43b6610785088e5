/* image.h: reads PNG, JPEG, WebP, BMP and TIFF files as bytes of grey or RGB. The content decides
 * the format, not the file's name. A damaged or incomplete image is refused; no part is filled in.
 *
 * Alpha is dropped, palettes and CMYK become RGB, and of 16 bits the upper 8 are kept. The image is
 * turned as its EXIF orientation says. Gamma and colour profiles are not applied. This is what
 * ImageOps.exif_transpose(Image.open(file)).convert("RGB") of Pillow does; docs/data.md says where
 * not. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
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
    int orientation; /* of EXIF, 1 to 8; 0 or 1: the pixels are as they are shown */
    uint8_t *pixels; /* owned, [height][width][channels]; kept for the next image */
    size_t capacity;
};

/* The bytes that image_is_known() looks at. */
enum { IMAGE_KIND_BYTES = 12 };
/* Whether a file that begins with these bytes is an image. Two letters alone, as BMP has, are not
 * enough. */
bool image_is_known(const uint8_t *bytes, size_t size);

/* Reads width and height alone. `path` is for the sentence. -EINVAL, -ENOMEM. */
int image_inspect(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                  struct error *error);
/* Reads all of it. */
int image_decode(const char *path, const uint8_t *bytes, size_t size, struct image *image,
                 struct error *error);
void image_release(struct image *image);

/* Colours as Pillow's convert("RGB") makes them of cyan, magenta, yellow and black. */
void image_cmyk_to_rgb(const uint8_t cmyk[4], uint8_t rgb[3]);

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
int image_webp_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                    struct image *image, struct error *error);
int image_bmp_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                   struct image *image, struct error *error);
int image_tiff_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                    struct image *image, struct error *error);
