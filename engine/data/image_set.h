/* image_set.h: files of images become the samples of a set, of one size. Internal to the folder. */
#pragma once

#include "engine/data/dataset.h"
#include "engine/data/image_scan.h"

/* Decodes the files of the scan, or finds them in the cache. Targets are the labels of the files;
 * where `dataset->target` is VALUE they are `values`, [files][width]. Classes are the caller's.
 * `format` names the kind of set. -EINVAL and errno with a sentence that names the image. */
int image_set_read(const char *format, const struct dataset_config *config,
                   const struct dataset *reference, const struct image_scan *scan,
                   const float *values, int32_t width, struct dataset *dataset,
                   struct error *error);
