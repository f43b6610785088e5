/* recipe_comparison.h: whether one way to train is better than another, by their scores on the same
 * folds: a pure function. */
#pragma once

#include <stdbool.h>

/* Each way is scored on RECIPE_LOOK folds. If two ways are then not told apart, all RECIPE_FOLDS
 * decide: the rows are cut once more. Ten folds in all are what scikit-learn's documentation and
 * Kohavi (IJCAI 1995, "A study of cross-validation and bootstrap") recommend for choosing. */
enum { RECIPE_LOOK = 5, RECIPE_FOLDS = 10 };

struct recipe_scores {
    double score[RECIPE_FOLDS]; /* NAN: the fold has none */
    int count;                  /* folds, the first ones */
};

struct recipe_difference {
    double mean;  /* by which the way is better than the other */
    double error; /* one standard error of it */
    int count;    /* folds that both have a score of */
};

/* Of the folds that both ways have. With fewer than two the error is infinite. */
struct recipe_difference recipe_compare(const struct recipe_scores *way,
                                        const struct recipe_scores *other);
/* Whether the difference is no more than noise: it is within two standard errors, so that further
 * folds may change the choice. */
bool recipe_is_open(const struct recipe_difference *difference);
/* Whether the way takes the other's place, which is plainer: it is better by more than one standard
 * error. */
bool recipe_is_better(const struct recipe_difference *difference);
double recipe_mean(const struct recipe_scores *scores);
