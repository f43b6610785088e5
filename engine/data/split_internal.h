/* split_internal.h: shared by split.c and split_rows.c. */
#pragma once

#include "engine/data/split.h"

/* round(fraction * count), but at least 1 and at most count - 1. */
int64_t split_fraction_count(int64_t count, double fraction);

/* The split of samples that do not depend on each other: those of all formats but text and time
 * series. -EINVAL, -ENOMEM. */
int split_rows(const struct dataset *dataset, const struct dataset_split_config *config,
               struct dataset_split *split, struct error *error);
