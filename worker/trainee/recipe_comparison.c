/* recipe_comparison.c: see recipe_comparison.h. */
#include "worker/trainee/recipe_comparison.h"

#include <math.h>

struct recipe_difference recipe_compare(const struct recipe_scores *way,
                                        const struct recipe_scores *other)
{
    struct recipe_difference difference = {.error = INFINITY};
    int folds = way->count < other->count ? way->count : other->count;
    double sum = 0, squares = 0;

    for (int i = 0; i < folds; i++) {
        double one = way->score[i] - other->score[i];

        if (isnan(one))
            continue;
        sum += one;
        difference.count++;
    }
    if (difference.count < 2)
        return difference;
    difference.mean = sum / difference.count;
    for (int i = 0; i < folds; i++) {
        double one = way->score[i] - other->score[i] - difference.mean;

        squares += isnan(one) ? 0 : one * one;
    }
    difference.error = sqrt(squares / (difference.count - 1) / difference.count);
    return difference;
}

bool recipe_is_open(const struct recipe_difference *difference)
{
    return !(fabs(difference->mean) > 2 * difference->error);
}

bool recipe_is_better(const struct recipe_difference *difference)
{
    return difference->mean > difference->error;
}

double recipe_mean(const struct recipe_scores *scores)
{
    double sum = 0;
    int count = 0;

    for (int i = 0; i < scores->count; i++)
        if (!isnan(scores->score[i])) {
            sum += scores->score[i];
            count++;
        }
    return count ? sum / count : NAN;
}
