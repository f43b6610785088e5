/* archive.h: arrays in zip archives, such as the .npz files of numpy.savez(). */
#pragma once

#include "engine/data/dataset.h"

/* Unpacks an array of the archive at `path` into anonymous memory, which the caller unmaps.
 * `member` is its name, with or without ".npy"; NULL: its only one. -ENOENT: there is no such
 * array, and the sentence lists those that are there; -EINVAL: damaged; -ENOMEM. */
int archive_read(const char *path, const char *member, struct dataset_mapping *mapping,
                 struct error *error);
