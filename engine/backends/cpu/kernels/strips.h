/* strips.h: walks over the channels of images (struct image_layout) in strips that stay in
 * registers. */
#pragma once

#include "engine/backends/cpu/kernels/kernels.h"

/* The arithmetic is the same whether neighbours are channels (block > 1) or pixels of one channel
 * (block 1), but the loops differ. Blocks are walked in strips that stay in registers. */
enum { STRIP = 16 };

static inline int64_t strip_width(const struct image_layout *layout, int64_t c)
{
    int64_t left = layout->block - c % layout->block;

    return left < STRIP ? left : STRIP;
}

/* Where channel c of sample n begins; the next pixel lies `block` further. */
static inline int64_t place_of(const struct image_layout *layout, int64_t n, int64_t c)
{
    return (n * (layout->channels / layout->block) + c / layout->block) * layout->pixels *
               layout->block +
           c % layout->block;
}
