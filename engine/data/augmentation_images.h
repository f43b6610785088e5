/* augmentation_images.h: the changes of struct augmentation that are made to the bytes of an image,
 * before they are normalised, and to a box of it afterwards. Draws are functions of (seed, epoch,
 * index of the sample). */
#pragma once

#include "engine/data/augmentation.h"

/* Whether any of them changes the bytes of images. */
bool augmentation_changes_bytes(const struct augmentation *augmentation);

/* The name of the first change that is asked for; NULL: none is. */
const char *augmentation_images_name(const struct augmentation *augmentation);

/* Bytes that augmentation_change_bytes() needs. */
size_t augmentation_images_scratch(const struct augmentation *augmentation,
                                   const struct dataset *dataset);

/* The changed image of sample `index`, in `scratch`. */
const uint8_t *augmentation_change_bytes(const struct augmentation *augmentation,
                                         const struct dataset *dataset, uint32_t epoch,
                                         int64_t index, const uint8_t *raw, uint8_t *scratch);

/* A part of an image: rows top to before bottom, columns left to before right. */
struct augmentation_box {
    int64_t top, bottom, left, right;
};

/* What random erasing blanks in sample `index`; empty: nothing. */
struct augmentation_box augmentation_erased_box(const struct augmentation *augmentation,
                                                const struct dataset *dataset, uint32_t epoch,
                                                int64_t index);
/* The box that CutMix takes from the other image of each pair, where `share` of the own one would
 * stay; and the share that does stay. */
struct augmentation_box augmentation_cutmix_box(const struct augmentation *augmentation,
                                                const struct dataset *dataset, uint32_t epoch,
                                                int64_t position, float *share);
/* Whether the batch that begins at `position` is mixed by CutMix, not by MixUp. */
bool augmentation_cuts(const struct augmentation *augmentation, uint32_t epoch, int64_t position);
