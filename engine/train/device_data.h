/* device_data.h: data sets in the device's memory (struct backend_data_config of backend.h). */
#pragma once

#include "base/error.h"
#include "engine/backends/backend.h"
#include "engine/data/augmentation.h"
#include "engine/data/dataset.h"

/* How the device makes batches of the set. `normalisation`: NULL for text; `augmentation`: NULL
 * where no batch is changed. `orders` and `batch` are left to the caller. Both outlive what is made
 * of the configuration. */
struct backend_data_config device_data_describe(const struct dataset *dataset,
                                                const struct dataset_normalisation *normalisation,
                                                const struct augmentation *augmentation);

/* Copies samples and targets to the device. Those of `augmented` (NULL: none) get the
 * augmentation's noise on their labels. -ENOMEM, or the backend's failure. */
int device_data_write(const struct backend *backend, struct backend_data *data,
                      const struct dataset *dataset, const struct augmentation *augmentation,
                      const struct dataset_view *augmented, struct error *error);
