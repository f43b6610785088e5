/* recipe_boosting.h: how gradient boosting of trees scores on the folds that a specification was
 * scored on, so that a person hears where a network is the weaker model. */
#pragma once

#include "worker/trainee/recipe_comparison.h"
#include "worker/trainee/recipe_trial.h"

enum { RECIPE_COLUMNS = 3, RECIPE_COLUMN_BYTES = 64 };

struct recipe_boosting {
    struct recipe_scores scores;
    /* The features whose cuts gained most, and their shares; "": there are no more with a tenth */
    char columns[RECIPE_COLUMNS][RECIPE_COLUMN_BYTES];
    double shares[RECIPE_COLUMNS];
};

/* Scores trees on the first `folds` folds of trial->folds, cut again with each further seed after
 * all of them, as `trial->seed` was the first of. trial->fold is not read. Trees see the features
 * that the specification makes of the columns. -ETIME, -ENOMEM, and errors of the data. */
int recipe_boosting_run(const struct recipe_trial *trial, int folds,
                        struct recipe_boosting *boosting, struct error *error);
