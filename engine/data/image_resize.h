/* image_resize.h: bilinear resizing of planes, bit for bit as Pillow's Image.resize(size, BILINEAR)
 * (torchvision's Resize of an image): each pixel of the result is a mean of the pixels around its
 * place, weighted by a triangle that is 2 pixels wide, or wider by the factor of shrinking. First
 * along rows, then along columns, each rounded to bytes. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The weights of one axis: pixel i of the result is the sum over k of weight[i * width + k] times
 * pixel first[i] + k, 0 <= k < count[i]. */
struct image_axis {
    int64_t from, to; /* lengths that the weights are for */
    int width;
    int32_t *weight;
    int64_t *first;
    int *count;
};

/* Scratch of one thread; zero-initialised, released with image_resizer_release(). */
struct image_resizer {
    struct image_axis rows, columns;
    uint8_t *between; /* owned: one plane whose rows are resized */
    size_t capacity;
};

/* Resizes `channels` planes of from_height x from_width into planes of to_height x to_width. The
 * weights of the latest sizes are kept. -ENOMEM. */
int image_resize(struct image_resizer *resizer, const uint8_t *planes, int channels,
                 int64_t from_height, int64_t from_width, uint8_t *output, int64_t to_height,
                 int64_t to_width, struct error *error);
void image_resizer_release(struct image_resizer *resizer);

/* One line alone, without memory: the weights of pixel `place` of the result and the first pixel
 * that they are for. Returns how many they are. Nothing may shrink: from <= to. */
enum { IMAGE_WEIGHTS_MAX = 3 };
int image_weights(int64_t from, int64_t to, int64_t place, int64_t *first,
                  int32_t weight[IMAGE_WEIGHTS_MAX]);
/* The pixel of the result: `pixels` are the first one and those behind it, `step` apart. */
uint8_t image_weighted(const uint8_t *pixels, int64_t step, const int32_t *weight, int count);
