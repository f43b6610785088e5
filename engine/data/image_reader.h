/* image_reader.h: images without labels, for predictions: those of a folder and the folders in it,
 * those that a table names, or one file. They are prepared as the training images were, and read
 * piece by piece, so that they may be of any number. */
#pragma once

#include "engine/data/dataset.h"

struct image_reader;

/* Whether the set's samples can be read from files of images: it was made of such files, or has
 * bytes of images and `path` is a folder or a file that is an image. */
bool image_reader_reads(const struct dataset *reference, const char *path);

/* Lists the images of config->paths[0]; both are kept until image_reader_close(). Images have the
 * size and channels of `reference`, after the configuration's resize and crop. -EINVAL and errno
 * with a sentence. */
int image_reader_open(const struct dataset_config *config, const struct dataset *reference,
                      struct image_reader **reader, struct error *error);

/* Decodes the next images, at most `most` of them, on all cores. The caller closes the set; NULL:
 * there are no more. -EINVAL and errno with a sentence that names the image. */
int image_reader_next(struct image_reader *reader, int64_t most, struct dataset **dataset,
                      struct error *error);

/* The path of an image of the latest piece, as the table has it, else as the caller reaches it;
 * malloc'd. NULL: no memory. */
char *image_reader_path(const struct image_reader *reader, int64_t index);

void image_reader_close(struct image_reader *reader); /* NULL allowed */
