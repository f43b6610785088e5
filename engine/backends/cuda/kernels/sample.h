/* sample.h: computes the elements of a batch from raw samples: the draws and the arithmetic of
 * engine/data/augmentation.c and gather.c, bit for bit, as functions for kernels and for tests on
 * the host. */
#pragma once

#include "base/philox.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SAMPLE_FUNCTION __host__ __device__ static inline
#else
#define SAMPLE_FUNCTION static inline
#endif

/* How raw samples are stored, and how they are changed. */
struct sample_set {
    const void *raw;
    int64_t stride; /* elements from one sample to the next */
    int32_t channels, height, width;
    const float *mean, *factor; /* value = (raw - mean[g]) * factor[g] */
    /* g = channel * group_of_channel + pixel * group_of_pixel */
    int32_t group_of_channel, group_of_pixel;
    uint64_t seed;
    int32_t crop_padding, cutout_side;
    bool horizontal_flip;
};

/* What was drawn for an image of an epoch. */
struct sample_geometry {
    int32_t down, right;              /* the place of the cut-out part relative to the image */
    int32_t top, bottom, left, after; /* of the hole; top == bottom: there is none */
    bool flip;
};

/* Uniform in [0, bound). */
SAMPLE_FUNCTION int32_t sample_below(uint32_t word, int32_t bound)
{
    return (int32_t)((uint64_t)word * (uint64_t)bound >> 32);
}

SAMPLE_FUNCTION int32_t sample_clip(int32_t value, int32_t high)
{
    return value < 0 ? 0 : value > high ? high : value;
}

SAMPLE_FUNCTION bool sample_has_geometry(const struct sample_set *set)
{
    return set->crop_padding || set->horizontal_flip || set->cutout_side;
}

SAMPLE_FUNCTION struct sample_geometry sample_draw(const struct sample_set *set, uint32_t epoch,
                                                   uint32_t index)
{
    const uint64_t stream = philox_stream(PHILOX_AUGMENTATION, epoch);
    struct philox words = philox_draw(set->seed, stream, index);
    const int32_t padding = set->crop_padding, side = set->cutout_side;
    struct sample_geometry drawn = {0, 0, 0, 0, 0, 0, false};

    drawn.down = sample_below(words.word[0], 2 * padding + 1) - padding;
    drawn.right = sample_below(words.word[1], 2 * padding + 1) - padding;
    drawn.flip = set->horizontal_flip && words.word[2] >> 31;
    if (side) {
        int32_t top, left;

        words = philox_draw(set->seed, stream, (uint64_t)1 << 32 | index);
        top = sample_below(words.word[0], set->height) - side / 2;
        left = sample_below(words.word[1], set->width) - side / 2;
        drawn.top = sample_clip(top, set->height);
        drawn.bottom = sample_clip(top + side, set->height);
        drawn.left = sample_clip(left, set->width);
        drawn.after = sample_clip(left + side, set->width);
    }
    return drawn;
}

/* The index of the raw element within its sample for a pixel of the result; -1: it is in the frame
 * of raw zeros, -2: in the hole. */
SAMPLE_FUNCTION int32_t sample_source(const struct sample_set *set,
                                      const struct sample_geometry *drawn, int32_t pixel)
{
    int32_t y = pixel / set->width, x = pixel - y * set->width;

    if (y >= drawn->top && y < drawn->bottom && x >= drawn->left && x < drawn->after)
        return -2;
    if (drawn->flip)
        x = set->width - 1 - x;
    y += drawn->down;
    x += drawn->right;
    return y < 0 || y >= set->height || x < 0 || x >= set->width ? -1 : y * set->width + x;
}

/* The element's value. `pixel` is that of the result; `source` is that of sample_source(), or
 * `pixel` itself. */
SAMPLE_FUNCTION float sample_normalise(const struct sample_set *set, int32_t channel, int32_t pixel,
                                       int32_t source, float raw)
{
    int32_t group = channel * set->group_of_channel + pixel * set->group_of_pixel;

    if (source == -2)
        return 0;
    return ((source < 0 ? 0 : raw) - set->mean[group]) * set->factor[group];
}

/* MixUp. Products are rounded before they are added, as on the CPU. */
SAMPLE_FUNCTION float sample_mix(float own, float other, float share)
{
#ifdef __CUDA_ARCH__
    return __fadd_rn(__fmul_rn(share, own), __fmul_rn(1 - share, other));
#else
    return share * own + (1 - share) * other;
#endif
}

/* The probability of class `c` in a soft target. */
SAMPLE_FUNCTION float sample_probability(int32_t c, int32_t label, int32_t other, float low,
                                         float own_share, float other_share)
{
    float value = low;

    if (c == label)
        value += own_share;
    if (c == other)
        value += other_share;
    return value;
}
