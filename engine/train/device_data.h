/* device_data.h: puts data sets into the device's memory (struct backend_data_config of
 * backend.h). */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/data/augmentation.h"
#include "engine/data/dataset.h"

/* Whether the device can make the set's batches, if the backend can at all: not those of a time
 * series, nor of sequences of numbers whose features have constants of their own, nor of samples
 * with several labels. */
bool device_data_is_possible(const struct dataset *dataset,
                             const struct dataset_normalisation *normalisation);

/* Describes how the device makes batches of the set. `normalisation` is NULL for text,
 * `augmentation` is NULL without one; both must outlive the data. The caller fills in `orders` and
 * `batch`. */
struct backend_data_config device_data_describe(const struct dataset *dataset,
                                                const struct dataset_normalisation *normalisation,
                                                const struct augmentation *augmentation);

/* Copies samples and targets to the device. Samples in the view `augmented` (NULL: none) get the
 * augmentation's label noise. -ENOMEM, or the backend's failure. */
int device_data_write(const struct backend *backend, struct backend_data *data,
                      const struct dataset *dataset, const struct augmentation *augmentation,
                      const struct dataset_view *augmented, struct error *error);
