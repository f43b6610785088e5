/* boosted_trees.h: gradient boosting of trees, beside which a network's score on a table is put: no
 * model of a job, but what tells a person that another kind of model would be better. */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* All rows; labels or values, the other is NULL. */
struct boosting_rows {
    const float *features; /* [rows, width] */
    int32_t width;
    const int32_t *labels; /* [rows], 0 to classes - 1 */
    int32_t classes;
    const float *values; /* [rows] */
};

/* Rows by their numbers. */
struct boosting_part {
    const uint32_t *rows;
    int64_t count;
};

/* Trains on one part and scores the other: the accuracy, or the mean squared error of values.
 * Trees and rate are those of scikit-learn's HistGradientBoosting with its defaults, but for
 * categories, which are numbers here. To `gains` [width] what the cuts of each feature gained is
 * added. `deadline` is of CLOCK_MONOTONIC. With a sentence: -ETIME, -ENOMEM, -EINVAL (XGBoost
 * refuses), -ENOENT (XGBoost is not installed). */
int boosted_trees_score(const struct boosting_rows *rows, const struct boosting_part *train,
                        const struct boosting_part *test, double deadline, double *gains,
                        double *score, struct error *error);
