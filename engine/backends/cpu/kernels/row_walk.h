/* row_walk.h: walks over channels-last images and matrices row by row, where a row is the channels
 * of a pixel. It reads memory in its order, up to 1 KB at a time. Strips of one vector, which a row
 * separates, read memory beyond the second-level cache at less than half the speed: 10 instead of
 * 25 GB/s on a core of a Sapphire Rapids. */
#pragma once

#include "engine/backends/cpu/kernels/strips.h"

/* WALK: how many floats are taken at a time. FOLD: after how many of these a float32 sum is added
 * to a float64 sum. */
enum { WALK = 256, FOLD = 32 };

struct row_walk {
    int64_t rows, channels;
    int64_t first, width; /* the channels of this walk */
    int64_t together;     /* adjacent rows that are taken at a time: 1, or all channels of some */
};

static inline bool walks_rows(const struct image_layout *layout)
{
    return layout->block == layout->channels && layout->channels > STRIP;
}

static inline struct row_walk row_walk_at(const struct image_layout *layout, int64_t first)
{
    int64_t left = layout->channels - first;
    struct row_walk walk = {.rows = layout->samples * layout->pixels,
                            .channels = layout->channels,
                            .first = first,
                            .width = left < WALK ? left : WALK,
                            .together = 1};

    if (walk.width == walk.channels)
        walk.together = WALK / walk.width;
    return walk;
}

/* How many floats, from row r on, are taken at a time. */
static inline int64_t row_walk_count(const struct row_walk *walk, int64_t r)
{
    int64_t left = walk->rows - r;

    return (left < walk->together ? left : walk->together) * walk->width;
}

/* Repeats the channels' values once for each row that is taken at a time. */
static inline void row_walk_repeat(const struct row_walk *walk, const float *values, float *to)
{
    for (int64_t i = 0; i < walk->together; i++)
        for (int64_t k = 0; k < walk->width; k++)
            to[i * walk->width + k] = values[walk->first + k];
}

/* Adds the float32 sums of rows that were taken together to the sums of the channels, and clears
 * them. */
static inline void row_walk_fold(const struct row_walk *walk, float *sum, double *total)
{
    for (int64_t i = 0; i < walk->together; i++)
        for (int64_t k = 0; k < walk->width; k++) {
            total[k] += sum[i * walk->width + k];
            sum[i * walk->width + k] = 0;
        }
}
