/* data_files.h: small files in the test's temporary folder, and data sets opened from them. */
#pragma once

#include "engine/data/dataset.h"

#include <stddef.h>

/* "<TMPDIR>/<name>". The text lives for the next 7 calls. */
const char *data_file_path(const char *name);

/* Writes a file into the temporary folder and returns its path as data_file_path() does. */
const char *data_file_write(const char *name, const void *content, size_t size);
const char *data_file_write_text(const char *name, const char *text);

/* Writes a PNG file: pixels are [height][width][channels], 1 (grey) or 3 (RGB). */
void data_file_write_png(const char *path, int width, int height, int channels,
                         const uint8_t *pixels);

/* Opens the set. If that fails, the test fails with the error's sentence. */
struct dataset *data_open(const struct dataset_config *config, const struct dataset *reference);

/* What a checkpoint keeps of the set, as a reference for others. */
struct dataset *data_describe(const struct dataset *dataset);

/* Opening the set must fail with `code`, and every one of the NULL-terminated pieces must be in its
 * sentence. */
void data_expect_refusal(const struct dataset_config *config, const struct dataset *reference,
                         int code, ...) __attribute__((sentinel));
