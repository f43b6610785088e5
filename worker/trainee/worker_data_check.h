/* worker_data_check.h: whether data has the classes, columns and values that a checkpoint was
 * trained on. Their numbers follow from the data, so other data gives the same numbers another
 * meaning. */
#pragma once

#include "engine/data/dataset.h"
#include "engine/train/checkpoint.h"

/* `train` is the training set, `path` names the checkpoint. -EINVAL with a sentence that says what
 * differs. */
int worker_data_check(const struct checkpoint_texts *texts, const struct dataset *train,
                      const char *path, struct error *error);

/* The same of what a model is given alone: its columns or symbols, whatever it predicts. */
int worker_data_check_inputs(const struct checkpoint_texts *texts, const struct dataset *train,
                             const char *path, struct error *error);
