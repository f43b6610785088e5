/* worker_model.h: opens a trained model by itself, for data that it was not trained on: a
 * checkpoint, or what an export wrote. */
#pragma once

#include "worker/trainee/worker_setup.h"

/* Opens the file, or the only one in the folder, and its model on the device. The caller closes the
 * checkpoint and releases the setup, whether this worked or not. */
int worker_model_open(const struct worker_options *options, const char *path,
                      struct checkpoint *checkpoint, struct worker_setup *setup,
                      struct error *error);

/* -EINVAL with a sentence: an option that names a file beside the data is missing, that of the
 * lengths of sequences, or, for an evaluation, that of the labels. */
int worker_model_check_lengths(const struct worker_setup *setup,
                               const struct worker_options *options, struct error *error);
int worker_model_check_files(const struct worker_setup *setup, const struct worker_options *options,
                             struct error *error);

/* How the file at `*path` is read as the training data were; `path` outlives the configuration, and
 * so does the setup. */
struct dataset_config worker_model_data(struct worker_setup *setup, const char *const *path);
