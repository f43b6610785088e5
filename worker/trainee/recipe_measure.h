/* recipe_measure.h: chooses how a table is trained by measuring: each way is trained on parts of
 * the training rows and scored on the others. */
#pragma once

#include "proto/json.h"
#include "worker/trainee/worker_options.h"

#include <stdbool.h>
#include <stdint.h>

/* Changes the specification of a table's rows to those ways that are better than the usual one by
 * more than one standard error. One setting after the other is compared: checkpoint.best (of
 * classes), data.train.bins (if `has_numbers`: without columns of numbers there are none),
 * model.dropout and model.hidden. What options->seconds do not suffice for stays as it is. Progress
 * goes to standard error. One options->seed gives the same choice, unless the time limit ends it.
 *
 * Returns {"score": "accuracy" | "r2", "seconds", "trainings", "is_complete", "sentences": […],
 * "settings": [{"key", "chosen", "ways": [{"value", "score", "folds", "difference", "error"}]}]},
 * which the caller owns. "difference" is that to the best way of those before it, and "error" its
 * standard error. {"boosting": {"score", "difference", "error"}} puts gradient boosting of trees
 * beside what was chosen. If the rows are too few or cannot be trained on, a sentence says so. */
struct json_object *recipe_measure(const struct worker_options *options, struct json_object *spec,
                                   int64_t rows, bool has_numbers);
