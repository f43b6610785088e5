/* recipe_trial.h: trains a specification on a part of its training rows and scores it on the rest.
 * The test set of the specification is not read. */
#pragma once

#include "base/error.h"
#include "engine/data/dataset.h"
#include "proto/json.h"
#include "worker/trainee/worker_options.h"

#include <stdint.h>

struct recipe_trial {
    const struct worker_options *options;
    struct json_object *specification; /* of a table, as traind-worker inspect suggests it */
    int folds, fold;                   /* the rows are cut into `folds`; `fold` is scored */
    uint64_t seed;                     /* of weights, order, dropout and of how the rows are cut */
    double deadline;                   /* CLOCK_MONOTONIC; the training ends there */
};

/* Trains in this process in float32, whose results do not depend on what else the device offers.
 * The weights that score are those that validate best, as a job keeps them: a tenth of the other
 * rows validates (data.validation_fraction), so no row that is scored was looked at. `*score`: the
 * accuracy, or of numbers 1 - squared error / variance of all rows: the mean over all folds is then
 * R2, and no small fold with alike numbers decides alone. -ETIME: the deadline came; other negative
 * codes with a sentence: it does not train. */
int recipe_trial_run(const struct recipe_trial *trial, double *score, struct error *error);

/* The specification of such a training, with the fold and the seed, and without the test set; the
 * caller owns it. */
int recipe_trial_specify(const struct recipe_trial *trial, struct json_object **specification,
                         struct error *error);

/* The variance of what is predicted, of all rows; NAN or 0: they are all equal. */
double recipe_trial_variance(const struct dataset *dataset);
