/* image_operations.h: changes to an image of bytes, planes [channels][height][width] with 1 or 3
 * channels. Each does to its pixels, bit for bit, what the function of Pillow 13 does that is named
 * with it. What torchvision's transforms do with Pillow's images is made of these. `scratch` has
 * image_operation_scratch() bytes; nothing is allocated. */
#pragma once

#include "engine/data/image_resize.h"

#include <stdbool.h>

struct image_planes {
    uint8_t *bytes;
    int channels;
    int64_t height, width;
};

/* Bytes of scratch for images of this size: a copy of the image, and one plane of grey. */
size_t image_operation_scratch(int channels, int64_t height, int64_t width);

/* The part of height x width at (top, left) becomes the image, at its size: crop() and resize()
 * with BILINEAR. */
void image_crop_resize(struct image_planes *image, int64_t top, int64_t left, int64_t height,
                       int64_t width, uint8_t *scratch);
void image_flip_vertically(struct image_planes *image, uint8_t *scratch);

/* ImageEnhance.Brightness, Contrast, Color and Sharpness: 1 changes nothing. */
void image_brightness(struct image_planes *image, float factor);
void image_contrast(struct image_planes *image, float factor);
void image_saturation(struct image_planes *image, float factor);
void image_sharpness(struct image_planes *image, float factor, uint8_t *scratch);
/* Adds `shift` x 255 to the hue of convert("HSV"), -0.5 to 0.5. Nothing for one channel. */
void image_hue(struct image_planes *image, double shift);

/* ImageOps.posterize, solarize (numbers from `threshold` on), autocontrast, equalize. */
void image_posterize(struct image_planes *image, int bits);
void image_solarize(struct image_planes *image, double threshold);
void image_autocontrast(struct image_planes *image);
void image_equalize(struct image_planes *image);

/* transform(AFFINE, matrix, NEAREST): pixel (x, y) becomes that at (m0 x + m1 y + m2,
 * m3 x + m4 y + m5), of the centres of pixels; black outside. */
void image_transform(struct image_planes *image, const double matrix[6], uint8_t *scratch);
/* rotate(degrees, NEAREST), against the clock. */
void image_rotate(struct image_planes *image, double degrees, uint8_t *scratch);
