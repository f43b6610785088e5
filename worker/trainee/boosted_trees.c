/* boosted_trees.c: see boosted_trees.h. The trees are those of XGBoost (Chen and Guestrin, KDD
 * 2016), whose library is loaded when it is first needed: a worker that trains does without it. */
#include "worker/trainee/boosted_trees.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char library_name[] = "libxgboost.so.0";

/* The part of XGBoost's C interface that is used (xgboost/c_api.h of version 1.6 and later). All
 * return 0, or -1 with a sentence of XGBGetLastError(). */
struct xgboost {
    const char *(*last_error)(void);
    int (*matrix_create)(const float *data, uint64_t rows, uint64_t columns, float missing,
                         void **matrix);
    int (*matrix_set_floats)(void *matrix, const char *field, const float *values, uint64_t count);
    int (*matrix_free)(void *matrix);
    int (*booster_create)(void *const *matrices, uint64_t count, void **booster);
    int (*booster_set)(void *booster, const char *name, const char *value);
    int (*booster_update)(void *booster, int iteration, void *matrix);
    int (*booster_predict)(void *booster, void *matrix, int options, unsigned trees, int training,
                           const uint64_t **count, const float **predictions);
    int (*booster_feature_scores)(void *booster, const char *configuration, uint64_t *count,
                                  const char *const **names, uint64_t *dimensions,
                                  const uint64_t **shape, const float **scores);
    int (*booster_free)(void *booster);
};

/* The defaults of scikit-learn's HistGradientBoosting. Its leaves have at least 20 rows. XGBoost
 * counts second derivatives instead: 1 for each row of values, at most 1/4 for one of a class. */
enum { ITERATIONS = 100 };
static const struct setting {
    const char *name, *values, *classes;
} settings[] = {{"tree_method", "hist", "hist"},
                {"grow_policy", "lossguide", "lossguide"},
                {"max_leaves", "31", "31"},
                {"max_depth", "0", "0"},
                {"max_bin", "255", "255"},
                {"learning_rate", "0.1", "0.1"},
                {"reg_lambda", "0", "0"},
                {"min_child_weight", "20", "5"},
                {"nthread", "1", "1"},
                {"verbosity", "0", "0"},
                {"objective", "reg:squarederror", NULL}};

struct boosting {
    const struct xgboost *library;
    const struct boosting_rows *rows;
    void *train, *test, *booster;
};

/* ---- the library ----------------------------------------------------------------------------- */

static struct xgboost loaded_library;
static bool is_loaded;

static void load_library(void)
{
    static const struct {
        void **function;
        const char *name;
    } functions[] = {
        {(void **)&loaded_library.last_error, "XGBGetLastError"},
        {(void **)&loaded_library.matrix_create, "XGDMatrixCreateFromMat"},
        {(void **)&loaded_library.matrix_set_floats, "XGDMatrixSetFloatInfo"},
        {(void **)&loaded_library.matrix_free, "XGDMatrixFree"},
        {(void **)&loaded_library.booster_create, "XGBoosterCreate"},
        {(void **)&loaded_library.booster_set, "XGBoosterSetParam"},
        {(void **)&loaded_library.booster_update, "XGBoosterUpdateOneIter"},
        {(void **)&loaded_library.booster_predict, "XGBoosterPredict"},
        {(void **)&loaded_library.booster_feature_scores, "XGBoosterFeatureScore"},
        {(void **)&loaded_library.booster_free, "XGBoosterFree"},
    };
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);

    is_loaded = handle != NULL;
    for (size_t i = 0; is_loaded && i < sizeof functions / sizeof *functions; i++) {
        *functions[i].function = dlsym(handle, functions[i].name);
        is_loaded = *functions[i].function != NULL;
    }
}

static const struct xgboost *library_get(struct error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load_library);
    if (is_loaded)
        return &loaded_library;
    error_set(error, -ENOENT,
              "%s is missing or older than 1.6 (Debian: apt-get install libxgboost0)",
              library_name);
    return NULL;
}

static int boosting_fail(const struct boosting *boosting, struct error *error)
{
    const char *text = boosting->library->last_error();

    return error_set(error, -EINVAL, "XGBoost: %.*s", (int)strcspn(text, "\n"), text);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static float target_of(const struct boosting_rows *rows, uint32_t row)
{
    return rows->values ? rows->values[row] : (float)rows->labels[row];
}

/* Makes the matrix of a part, with its targets. NaN is missing. */
static int matrix_make(const struct boosting *boosting, const struct boosting_part *part,
                       void **matrix, struct error *error)
{
    const struct boosting_rows *rows = boosting->rows;
    size_t width = (size_t)rows->width, count = (size_t)part->count;
    AUTO_FREE float *features = calloc(count * width + 1, sizeof *features);
    AUTO_FREE float *targets = calloc(count + 1, sizeof *targets);

    if (!features || !targets)
        return error_no_memory(error, "%zu rows", count);
    for (size_t i = 0; i < count; i++) {
        memcpy(features + i * width, rows->features + part->rows[i] * width,
               width * sizeof *features);
        targets[i] = target_of(rows, part->rows[i]);
    }
    if (boosting->library->matrix_create(features, count, width, NAN, matrix) ||
        boosting->library->matrix_set_floats(*matrix, "label", targets, count))
        return boosting_fail(boosting, error);
    return 0;
}

/* ---- training -------------------------------------------------------------------------------- */

static int set(const struct boosting *boosting, const char *name, const char *value,
               struct error *error)
{
    return boosting->library->booster_set(boosting->booster, name, value)
               ? boosting_fail(boosting, error)
               : 0;
}

/* What is predicted without trees: the mean of the targets, as a share within (0, 1) of classes. */
static int set_beginning(const struct boosting *boosting, const struct boosting_part *train,
                         struct error *error)
{
    const struct boosting_rows *rows = boosting->rows;
    const double least = 1e-3;
    double mean = 0;
    char text[32];

    if (!rows->values && rows->classes > 2)
        return 0;
    for (int64_t i = 0; i < train->count; i++)
        mean += target_of(rows, train->rows[i]) / (double)train->count;
    if (!rows->values)
        mean = fmin(fmax(mean, least), 1 - least);
    snprintf(text, sizeof text, "%.9g", mean);
    return set(boosting, "base_score", text, error);
}

static int configure(const struct boosting *boosting, const struct boosting_part *train,
                     struct error *error)
{
    const struct boosting_rows *rows = boosting->rows;
    bool two = rows->classes == 2;
    char classes[16];
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof settings / sizeof *settings; i++) {
        const char *value = rows->values ? settings[i].values : settings[i].classes;

        r = set(boosting, settings[i].name,
                value ? value
                : two ? "binary:logistic"
                      : "multi:softprob",
                error);
    }
    if (r == 0 && !rows->values && !two) {
        snprintf(classes, sizeof classes, "%d", rows->classes);
        r = set(boosting, "num_class", classes, error);
    }
    return r == 0 ? set_beginning(boosting, train, error) : r;
}

static int iterate(const struct boosting *boosting, double deadline, struct error *error)
{
    for (int i = 0; i < ITERATIONS; i++) {
        if (clock_monotonic() > deadline)
            return error_set(error, -ETIME, "the time does not suffice for %d trees", ITERATIONS);
        if (boosting->library->booster_update(boosting->booster, i, boosting->train))
            return boosting_fail(boosting, error);
    }
    return 0;
}

/* ---- results --------------------------------------------------------------------------------- */

/* The class of a row's predictions: a share of class 1 of two, else a share of each. */
static int32_t class_of(const float *predicted, int32_t outputs)
{
    int32_t best = 0;

    if (outputs == 1)
        return *predicted > 0.5f;
    for (int32_t i = 1; i < outputs; i++)
        if (predicted[i] > predicted[best])
            best = i;
    return best;
}

static int score_part(const struct boosting *boosting, const struct boosting_part *test,
                      double *score, struct error *error)
{
    const struct boosting_rows *rows = boosting->rows;
    int32_t outputs = rows->values || rows->classes == 2 ? 1 : rows->classes;
    const uint64_t *count = NULL;
    const float *predicted = NULL;

    if (boosting->library->booster_predict(boosting->booster, boosting->test, 0, 0, 0, &count,
                                           &predicted))
        return boosting_fail(boosting, error);
    *score = 0;
    for (int64_t i = 0; i < test->count; i++) {
        const float *row = predicted + i * outputs;
        double difference = *row - (double)target_of(rows, test->rows[i]);

        *score += rows->values ? difference * difference
                               : class_of(row, outputs) == rows->labels[test->rows[i]];
    }
    *score /= (double)test->count;
    return 0;
}

/* XGBoost names features f0, f1 and so on, and leaves out those that no tree reads. */
static int add_gains(const struct boosting *boosting, double *gains, struct error *error)
{
    const char *const *names = NULL;
    const uint64_t *shape = NULL;
    const float *scores = NULL;
    uint64_t count = 0, dimensions = 0;

    if (boosting->library->booster_feature_scores(boosting->booster,
                                                  "{\"importance_type\": \"total_gain\"}", &count,
                                                  &names, &dimensions, &shape, &scores))
        return boosting_fail(boosting, error);
    for (uint64_t i = 0; i < count; i++) {
        long feature = strtol(names[i] + 1, NULL, 10);

        if (feature >= 0 && feature < boosting->rows->width)
            gains[feature] += (double)scores[i];
    }
    return 0;
}

int boosted_trees_score(const struct boosting_rows *rows, const struct boosting_part *train,
                        const struct boosting_part *test, double deadline, double *gains,
                        double *score, struct error *error)
{
    struct boosting boosting = {.library = library_get(error), .rows = rows};
    int r;

    *score = NAN;
    if (!boosting.library)
        return error->code;
    r = matrix_make(&boosting, train, &boosting.train, error);
    if (r == 0)
        r = matrix_make(&boosting, test, &boosting.test, error);
    if (r == 0 && boosting.library->booster_create(&boosting.train, 1, &boosting.booster))
        r = boosting_fail(&boosting, error);
    if (r == 0)
        r = configure(&boosting, train, error);
    if (r == 0)
        r = iterate(&boosting, deadline, error);
    if (r == 0)
        r = score_part(&boosting, test, score, error);
    if (r == 0)
        r = add_gains(&boosting, gains, error);
    if (boosting.booster)
        boosting.library->booster_free(boosting.booster);
    if (boosting.test)
        boosting.library->matrix_free(boosting.test);
    if (boosting.train)
        boosting.library->matrix_free(boosting.train);
    return r;
}
