/* image_set.h: files of images become the samples of a set, of one size. Internal to the folder. */
#pragma once

#include "engine/data/dataset.h"
#include "engine/data/image_scan.h"

struct image_set;

/* For image_set_decode(): the size is that of the configuration or of `reference`. The arguments
 * are kept until image_set_close(). */
int image_set_open(const struct dataset_config *config, const struct dataset *reference,
                   const struct image_scan *scan, struct image_set **set, struct error *error);
/* Decodes `count` images from `first` on into `samples`, [count][channels][height][width], on all
 * cores. -EINVAL and errno with a sentence that names the image. */
int image_set_decode(struct image_set *set, int64_t first, int64_t count, uint8_t *samples,
                     struct error *error);
void image_set_close(struct image_set *set); /* NULL allowed */

/* Lists the images that the table of the configuration names, without what else it has of them. */
int image_csv_scan(const struct dataset_config *config, struct image_scan *scan,
                   struct error *error);

/* Decodes the files of the scan, or finds them in the cache. Targets are the labels of the files;
 * where `dataset->target` is VALUE they are `values`, [files][width]. Classes are the caller's.
 * `format` names the kind of set. -EINVAL and errno with a sentence that names the image. */
int image_set_read(const char *format, const struct dataset_config *config,
                   const struct dataset *reference, const struct image_scan *scan,
                   const float *values, int32_t width, struct dataset *dataset,
                   struct error *error);
