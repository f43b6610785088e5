/* recipe_boosting.c: see recipe_boosting.h. */
#include "worker/trainee/recipe_boosting.h"

#include "base/cleanup.h"
#include "engine/data/gather.h"
#include "worker/trainee/boosted_trees.h"
#include "worker/trainee/worker_setup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A feature with a smaller share of the gains is not named. */
static const double share_least = 0.1;

/* What the trees of all folds gained by each feature. */
struct gains {
    double *sums; /* [width], owned */
    char **names; /* [width], owned; NULL: columns have no names */
    int32_t width;
};

static void gains_release(struct gains *gains)
{
    for (int32_t i = 0; gains->names && i < gains->width; i++)
        free(gains->names[i]);
    free(gains->names);
    free(gains->sums);
}

static int gains_begin(const struct dataset *dataset, struct gains *gains, struct error *error)
{
    int32_t width = (int32_t)dataset->sample_elements;

    if (gains->sums)
        return 0;
    gains->width = width;
    gains->sums = calloc((size_t)width, sizeof *gains->sums);
    gains->names = dataset->column_names ? calloc((size_t)width, sizeof *gains->names) : NULL;
    if (!gains->sums || (dataset->column_names && !gains->names))
        return error_no_memory(error, "the gains of %d features", width);
    for (int32_t i = 0; gains->names && i < width; i++)
        gains->names[i] = strdup(dataset->column_names[i]);
    return 0;
}

/* All rows as the model sees them; the caller frees them. NULL with a sentence. */
static float *features_read(const struct dataset *dataset,
                            const struct dataset_normalisation *normalisation, struct error *error)
{
    size_t width = (size_t)dataset->sample_elements;
    float *features = calloc((size_t)dataset->count, width * sizeof *features);

    if (!features) {
        error_no_memory(error, "%lld rows", (long long)dataset->count);
        return NULL;
    }
    for (int64_t i = 0; i < dataset->count; i++) {
        const uint8_t *raw = gather_sample(dataset, i, error);

        if (!raw) {
            free(features);
            return NULL;
        }
        gather_row(dataset, normalisation, i, raw, features + (size_t)i * width);
    }
    return features;
}

/* The labels or the values of all rows. */
static int targets_read(const struct dataset *dataset, int32_t **labels, float **values,
                        struct error *error)
{
    bool is_class = dataset->target == DATASET_TARGET_CLASS;

    *labels = is_class ? calloc((size_t)dataset->count, sizeof **labels) : NULL;
    *values = is_class ? NULL : calloc((size_t)dataset->count, sizeof **values);
    if (!*labels && !*values)
        return error_no_memory(error, "%lld rows", (long long)dataset->count);
    for (int64_t i = 0; i < dataset->count; i++) {
        if (*values) {
            (*values)[i] = *dataset_targets(dataset, i);
        } else {
            const uint8_t *raw = gather_sample(dataset, i, error);

            if (!raw)
                return error->code;
            (*labels)[i] = gather_label(dataset, i, raw);
        }
    }
    return 0;
}

static int score_split(const struct worker_setup *setup, double deadline, struct gains *gains,
                       double *score, struct error *error)
{
    const struct dataset *dataset = setup->train;
    AUTO_FREE float *features = features_read(dataset, &setup->normalisation, error),
                    *values = NULL;
    AUTO_FREE int32_t *labels = NULL;
    const struct boosting_part train = {.rows = setup->split.train.indices,
                                        .count = setup->split.train.count};
    const struct boosting_part test = {.rows = setup->split.validation.indices,
                                       .count = setup->split.validation.count};
    struct boosting_rows rows = {.features = features,
                                 .width = (int32_t)dataset->sample_elements,
                                 .classes = dataset->classes};
    int r = features ? gains_begin(dataset, gains, error) : error->code;

    if (r == 0)
        r = targets_read(dataset, &labels, &values, error);
    if (r < 0)
        return r;
    rows.labels = labels;
    rows.values = values;
    r = boosted_trees_score(&rows, &train, &test, deadline, gains->sums, score, error);
    if (values)
        *score = 1 - *score / recipe_trial_variance(dataset);
    return r;
}

static int score_fold(const struct recipe_trial *trial, struct gains *gains, double *score,
                      struct error *error)
{
    JSON_AUTO struct json_object *spec = NULL;
    struct worker_setup setup = {0};
    int r = recipe_trial_specify(trial, &spec, error);

    if (r == 0)
        r = worker_setup_open_data(trial->options, json_object_to_json_string(spec), &setup, error);
    if (r == 0)
        r = score_split(&setup, trial->deadline, gains, score, error);
    worker_setup_release(&setup);
    return r;
}

/* Names the features that gained most, the first one first. */
static void name_columns(const struct gains *gains, struct recipe_boosting *boosting)
{
    double sum = 0;

    for (int32_t i = 0; i < gains->width; i++)
        sum += gains->sums[i];
    for (int k = 0; k < RECIPE_COLUMNS && gains->names; k++) {
        int32_t best = 0;

        for (int32_t i = 1; i < gains->width; i++)
            if (gains->sums[i] > gains->sums[best])
                best = i;
        if (!(gains->sums[best] >= share_least * sum) || sum == 0)
            return;
        boosting->shares[k] = gains->sums[best] / sum;
        snprintf(boosting->columns[k], RECIPE_COLUMN_BYTES, "%s",
                 gains->names[best] ? gains->names[best] : "");
        gains->sums[best] = -1;
    }
}

int recipe_boosting_run(const struct recipe_trial *trial, int folds,
                        struct recipe_boosting *boosting, struct error *error)
{
    struct gains gains = {0};
    int r = 0;

    *boosting = (struct recipe_boosting){0};
    while (r == 0 && boosting->scores.count < folds) {
        struct recipe_trial fold = *trial;
        int number = boosting->scores.count;

        fold.fold = number % trial->folds;
        fold.seed = trial->seed + (uint64_t)(number / trial->folds);
        r = score_fold(&fold, &gains, &boosting->scores.score[number], error);
        boosting->scores.count += r == 0;
    }
    if (r == 0)
        name_columns(&gains, boosting);
    gains_release(&gains);
    return r;
}
