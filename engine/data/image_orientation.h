/* image_orientation.h: how a camera was held: the tag Orientation of EXIF, 1 to 8, and the pixels
 * turned by it as Pillow's ImageOps.exif_transpose() turns them. */
#pragma once

#include "engine/data/image.h"

/* The orientation that EXIF data name: a TIFF header and its first directory, behind "Exif\0\0" or
 * not. 1 (as it is) where they name none or are damaged. */
int image_exif_orientation(const uint8_t *bytes, size_t size);

/* Swaps width and height where the orientation does. */
void image_orient_size(struct image *image);
/* Turns the pixels by image->orientation, and width and height with them. -ENOMEM. */
int image_orient(const char *path, struct image *image, struct error *error);
