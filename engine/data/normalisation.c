/* normalisation.c: measures, over the training part, the constants that give samples mean 0 and
 * standard deviation 1. Writes them as text into checkpoints and reads them. */
#include "base/cleanup.h"
#include "base/string_table.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [DATASET_NORMALISE_NONE] = "none", [DATASET_NORMALISE_STANDARD] = "standard"};
DEFINE_STRING_TABLE(dataset_normalisation_kind, enum dataset_normalisation_kind, kind_names)

enum { FLOAT_TEXT_MAX = 16 /* as in "-1.17549435e-38," */ };

static int normalisation_create(enum dataset_normalisation_kind kind, int64_t groups,
                                struct dataset_normalisation *normalisation, struct error *error)
{
    *normalisation = (struct dataset_normalisation){
        .kind = kind,
        .groups = groups,
        .mean = calloc((size_t)groups, sizeof *normalisation->mean),
        .factor = calloc((size_t)groups, sizeof *normalisation->factor)};
    if (!normalisation->mean || !normalisation->factor) {
        dataset_normalisation_release(normalisation);
        return error_set(error, -ENOMEM, "not enough memory for the normalisation's constants");
    }
    return 0;
}

/* Beyond these, what float32 has no room for would become 0, infinite or no number at all. */
static const double LEAST_DEVIATION = 1e-36, LARGEST_DEVIATION = 1e37;

static int store(struct dataset_normalisation *normalisation, int64_t group, double mean,
                 double variance, struct error *error)
{
    double deviation = sqrt(variance);

    normalisation->mean[group] = (float)mean;
    normalisation->factor[group] = deviation > 0 ? (float)(1 / deviation) : 1;
    if (deviation == 0 || (deviation >= LEAST_DEVIATION && deviation <= LARGEST_DEVIATION))
        return 0;
    return error_set(error, -EINVAL,
                     "column or channel %lld of the training data (from 0) has the standard "
                     "deviation %.3g, which leaves float32 no room to compute with it: take "
                     "another unit, such as by %s all of its numbers by %.0e, or leave it out",
                     (long long)group, deviation,
                     deviation < LEAST_DEVIATION ? "multiplying" : "dividing",
                     deviation < LEAST_DEVIATION ? 1 / deviation : deviation);
}

/* Where the values of a group lie in a sample, in elements: one channel after the other, or, in
 * rows of features, next to those of the other groups. */
struct steps {
    int64_t group, element;
};

static struct steps steps_of(const struct dataset *dataset, int64_t groups)
{
    if (dataset->rank == 2)
        return (struct steps){1, groups};
    return (struct steps){dataset->sample_elements / groups, 1};
}

/* The values of a group in a sample, without padding. */
static int64_t values_of(const struct dataset *dataset, int64_t index, int64_t groups)
{
    return dataset->lengths && dataset->rank == 2
               ? dataset->lengths[index] * dataset->shape[1] / groups
               : dataset->sample_elements / groups;
}

/* The values of a group in all samples. */
static int64_t count_values(const struct dataset_view *train, int64_t groups)
{
    int64_t count = 0;

    for (int64_t i = 0; i < train->count; i++)
        count += values_of(train->dataset, dataset_view_index(train, i), groups);
    return count;
}

/* For bytes, the sums are exact: n^2 * variance = n * sum of squares - (sum)^2, in 128 bits. */
static int measure_bytes(const struct dataset_view *train,
                         struct dataset_normalisation *normalisation, struct error *error)
{
    int64_t groups = normalisation->groups, values = count_values(train, groups);
    struct steps step = steps_of(train->dataset, groups);
    AUTO_FREE uint64_t *sums = calloc((size_t)groups * 2, sizeof *sums);

    if (!sums)
        return error_set(error, -ENOMEM, "not enough memory to measure the training data");
    for (int64_t i = 0; i < train->count; i++) {
        int64_t index = dataset_view_index(train, i);
        int64_t size = values_of(train->dataset, index, groups);
        const uint8_t *raw = reader_sample(train->dataset, index);

        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *value = raw + g * step.group;
            uint64_t sum = 0, squares = 0;

            for (int64_t e = 0; e < size; e++, value += step.element) {
                sum += *value;
                squares += (uint64_t)*value * *value;
            }
            sums[2 * g] += sum;
            sums[2 * g + 1] += squares;
        }
    }
    double n = (double)values;
    for (int64_t g = 0; g < groups; g++) {
        unsigned __int128 spread = (unsigned __int128)sums[2 * g + 1] * (uint64_t)values -
                                   (unsigned __int128)sums[2 * g] * sums[2 * g];
        if (store(normalisation, g, (double)sums[2 * g] / n, (double)spread / n / n, error) < 0)
            return error->code;
    }
    return 0;
}

/* For floats, computes the mean first, and then the mean square of the differences from it. The
 * sums are of differences from the first value, so that a constant column has a variance of exactly
 * 0. */
static int measure_floats(const struct dataset_view *train,
                          struct dataset_normalisation *normalisation, struct error *error)
{
    int64_t groups = normalisation->groups;
    struct steps step = steps_of(train->dataset, groups);
    AUTO_FREE double *mean = calloc((size_t)groups * 2, sizeof *mean);
    double *variance = mean + groups, n = (double)count_values(train, groups);

    if (!mean)
        return error_set(error, -ENOMEM, "not enough memory to measure the training data");
    const float *first = (const float *)reader_sample(train->dataset, dataset_view_index(train, 0));
    for (int64_t g = 0; g < groups; g++)
        mean[g] = first[g * step.group];
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < train->count; i++) {
            int64_t index = dataset_view_index(train, i);
            int64_t size = values_of(train->dataset, index, groups);
            const float *raw = (const float *)reader_sample(train->dataset, index);

            for (int64_t g = 0; g < groups; g++) {
                const float *value = raw + g * step.group;

                for (int64_t e = 0; e < size; e++, value += step.element) {
                    double difference = *value - mean[g];

                    if (pass == 0)
                        variance[g] += difference;
                    else
                        variance[g] += difference * difference;
                }
            }
        }
        for (int64_t g = 0; g < groups; g++) {
            if (pass == 0) {
                mean[g] += variance[g] / n;
                variance[g] = 0;
            } else if (store(normalisation, g, mean[g], variance[g] / n, error) < 0) {
                return error->code;
            }
        }
    }
    return 0;
}

static int64_t groups_of(enum dataset_normalisation_kind kind, const struct dataset *dataset)
{
    if (kind == DATASET_NORMALISE_NONE)
        return 1;
    return dataset->rank == 3   ? dataset->shape[0]
           : dataset->rank == 2 ? dataset->shape[1]
                                : dataset->sample_elements;
}

/* The constants of the columns of a matrix, for which `constants` has room: over the rows of
 * `view`, whose set is not looked at. */
static int measure_columns(const float *matrix, int64_t rows, const struct dataset_view *view,
                           struct dataset_normalisation *constants, struct error *error)
{
    const uint8_t *start = (const uint8_t *)matrix;
    int64_t block_first[] = {0, rows};
    struct dataset_view part = *view;
    struct dataset table = {.element = DATASET_FLOAT32,
                            .rank = 1,
                            .shape = {constants->groups},
                            .sample_elements = constants->groups,
                            .count = rows,
                            .samples = &start,
                            .block_first = block_first,
                            .block_count = 1,
                            .sample_stride = (size_t)constants->groups * sizeof(float)};

    part.dataset = &table;
    return measure_floats(&part, constants, error);
}

/* The constants of the values to predict, [count][columns], over the rows of `view`. */
static int measure_targets(const float *targets, int64_t rows, int64_t columns,
                           const struct dataset_view *view,
                           struct dataset_normalisation *normalisation, struct error *error)
{
    struct dataset_normalisation values;
    int r = normalisation_create(DATASET_NORMALISE_STANDARD, columns, &values, error);

    if (r < 0)
        return r;
    r = measure_columns(targets, rows, view, &values, error);
    normalisation->target_groups = values.groups;
    normalisation->target_mean = values.mean;
    normalisation->target_factor = values.factor;
    return r;
}

/* Of a time series each row counts once, however many samples hold it. */
static int measure_series(const struct dataset_view *train,
                          struct dataset_normalisation *normalisation, struct error *error)
{
    const struct dataset *dataset = train->dataset;
    const struct dataset_series *series = &dataset->series;
    int64_t rows =
        (train->first + train->count - 1) * series->stride + series->input + series->horizon;
    struct dataset_view all = {.count = rows};
    int r = measure_columns((const float *)(const void *)dataset->samples[0], rows, &all,
                            normalisation, error);

    if (r < 0 || dataset->target == DATASET_TARGET_CLASS || dataset->plain_targets)
        return r;
    return measure_targets(dataset->targets + series->past * series->values, rows, series->values,
                           &all, normalisation, error);
}

/* The constants of the values to predict, if each sample has values that are scaled. */
static int measure_values(const struct dataset_view *train,
                          struct dataset_normalisation *normalisation, struct error *error)
{
    const struct dataset *dataset = train->dataset;

    if (dataset->target == DATASET_TARGET_CLASS || dataset->plain_targets)
        return 0;
    return measure_targets(dataset->targets, dataset->count, dataset->target_width, train,
                           normalisation, error);
}

static int measure_samples(const struct dataset_view *train,
                           struct dataset_normalisation *normalisation, struct error *error)
{
    int r = train->dataset->element == DATASET_UINT8 ? measure_bytes(train, normalisation, error)
                                                     : measure_floats(train, normalisation, error);

    return r < 0 ? r : measure_values(train, normalisation, error);
}

int dataset_normalisation_measure(enum dataset_normalisation_kind kind,
                                  const struct dataset_view *train,
                                  struct dataset_normalisation *normalisation, struct error *error)
{
    const struct dataset *dataset = train->dataset;
    bool bytes = dataset->element == DATASET_UINT8, standard = kind == DATASET_NORMALISE_STANDARD;
    int64_t groups = groups_of(kind, dataset);
    int result;

    if (dataset_format_has_symbols(dataset->format) && standard)
        return error_set(error, -EINVAL,
                         "symbols cannot be normalised; set data.normalize to none");
    result = normalisation_create(kind, groups, normalisation, error);
    if (result < 0)
        return result;
    if (!standard) {
        normalisation->factor[0] = bytes ? 1 / 255.0f : 1;
        return 0;
    }
    result = dataset->format == DATASET_TIME_SERIES ? measure_series(train, normalisation, error)
                                                    : measure_samples(train, normalisation, error);
    if (result < 0)
        dataset_normalisation_release(normalisation);
    return result;
}

int dataset_normalisation_given(const double *mean, const double *deviation, size_t count,
                                const struct dataset_view *train,
                                struct dataset_normalisation *normalisation, struct error *error)
{
    const struct dataset *dataset = train->dataset;
    int64_t groups = groups_of(DATASET_NORMALISE_STANDARD, dataset);
    double scale = dataset->element == DATASET_UINT8 ? 255 : 1;
    int r;

    if (dataset_format_has_symbols(dataset->format) || dataset->format == DATASET_TIME_SERIES ||
        dataset->format == DATASET_TABLE)
        return error_set(error, -EINVAL,
                         "data.normalize_mean is for arrays and images; leave it out");
    if ((int64_t)count != groups)
        return error_set(error, -EINVAL,
                         "data.normalize_mean has %zu constants, but the samples have %lld "
                         "channels or columns: give one for each",
                         count, (long long)groups);
    r = normalisation_create(DATASET_NORMALISE_STANDARD, groups, normalisation, error);
    for (size_t i = 0; r == 0 && i < count; i++) {
        normalisation->mean[i] = (float)(mean[i] * scale);
        normalisation->factor[i] = (float)(1 / (deviation[i] * scale));
    }
    if (r < 0)
        return r;
    r = measure_values(train, normalisation, error);
    if (r < 0)
        dataset_normalisation_release(normalisation);
    return r;
}

void dataset_normalisation_release(struct dataset_normalisation *normalisation)
{
    free(normalisation->mean);
    free(normalisation->factor);
    free(normalisation->target_mean);
    free(normalisation->target_factor);
    *normalisation = (struct dataset_normalisation){0};
}

int dataset_normalise_targets(const struct dataset_normalisation *normalisation,
                              struct dataset *dataset, struct error *error)
{
    const struct dataset_series *series = &dataset->series;
    bool is_series = dataset->format == DATASET_TIME_SERIES;
    int64_t columns = normalisation->target_groups;
    int64_t rows = is_series ? series->past + series->rows : dataset->count;
    float *row = dataset->targets;

    if (!columns || !row)
        return 0;
    for (int64_t i = 0; i < rows; i++, row += columns)
        for (int64_t c = 0; c < columns; c++)
            row[c] = (row[c] - normalisation->target_mean[c]) * normalisation->target_factor[c];
    if (is_series)
        return 0;
    dataset->target_units = calloc((size_t)columns, sizeof *dataset->target_units);
    if (!dataset->target_units)
        return error_no_memory(error, "the units of the values to predict");
    for (int64_t c = 0; c < columns; c++)
        dataset->target_units[c] = 1 / (double)normalisation->target_factor[c];
    return 0;
}

/* ---- as text; printf and strtof follow the locale, which traind's programs leave at "C" ---- */

static size_t format_list(char *text, size_t size, const float *values, int64_t count)
{
    size_t used = 0;

    for (int64_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%.9g", i ? ',' : ' ', values[i]);
    return used;
}

char *dataset_normalisation_format(const struct dataset_normalisation *normalisation)
{
    size_t numbers = 2 * (size_t)(normalisation->groups + normalisation->target_groups);
    size_t size = 64 + numbers * FLOAT_TEXT_MAX;
    char *text = malloc(size);

    if (!text)
        return NULL;
    size_t used = (size_t)snprintf(text, size, "%s %" PRId64,
                                   dataset_normalisation_kind_to_string(normalisation->kind),
                                   normalisation->groups);
    used += format_list(text + used, size - used, normalisation->mean, normalisation->groups);
    used += format_list(text + used, size - used, normalisation->factor, normalisation->groups);
    if (!normalisation->target_groups)
        return text;
    used += (size_t)snprintf(text + used, size - used, " %" PRId64, normalisation->target_groups);
    used += format_list(text + used, size - used, normalisation->target_mean,
                        normalisation->target_groups);
    format_list(text + used, size - used, normalisation->target_factor,
                normalisation->target_groups);
    return text;
}

static const char *parse_list(const char *text, float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        char *after;

        if (*text != (i ? ',' : ' '))
            return NULL;
        values[i] = strtof(text + 1, &after);
        if (after == text + 1 || !isfinite(values[i]))
            return NULL;
        text = after;
    }
    return text;
}

/* How many columns the values to predict have; 0: `stored` columns cannot be. The description of a
 * time series (is_absent) says only how many values a sample predicts, which is so many rows. */
static int64_t target_columns(const struct dataset *dataset, int64_t stored)
{
    if (dataset->format != DATASET_TIME_SERIES)
        return dataset->target == DATASET_TARGET_CLASS ? 0 : dataset->target_width;
    if (dataset->is_absent)
        return stored >= 1 && dataset->target_width % stored == 0 ? stored : 0;
    return dataset->series.values;
}

/* " 1 0.5 2": the constants of the values to predict. Returns what follows; NULL if it is damaged
 * or does not fit the set. */
static const char *parse_targets(const char *text, const struct dataset *dataset,
                                 struct dataset_normalisation *normalisation)
{
    char *after;
    int64_t stored = strtoll(text, &after, 10), columns = target_columns(dataset, stored);

    if (columns < 1 || stored != columns || after == text)
        return NULL;
    normalisation->target_mean = calloc((size_t)columns, sizeof(float));
    normalisation->target_factor = calloc((size_t)columns, sizeof(float));
    if (!normalisation->target_mean || !normalisation->target_factor)
        return NULL;
    normalisation->target_groups = columns;
    text = parse_list(after, normalisation->target_mean, columns);
    return text ? parse_list(text, normalisation->target_factor, columns) : NULL;
}

int dataset_normalisation_parse(const char *text, const struct dataset *dataset,
                                struct dataset_normalisation *normalisation, struct error *error)
{
    char kind_name[16];
    int64_t groups;
    int used = 0, kind, result;

    if (sscanf(text, "%15s %" SCNd64 "%n", kind_name, &groups, &used) != 2 ||
        (kind = dataset_normalisation_kind_from_string(kind_name)) < 0)
        return error_set(error, -EINVAL, "the stored normalisation is damaged at its beginning");
    if (groups != groups_of((enum dataset_normalisation_kind)kind, dataset))
        return error_set(error, -EINVAL,
                         "the stored normalisation is for %" PRId64 " channels or columns, but the "
                         "data have %" PRId64 "; take the data that the model was trained on",
                         groups, groups_of((enum dataset_normalisation_kind)kind, dataset));
    result =
        normalisation_create((enum dataset_normalisation_kind)kind, groups, normalisation, error);
    if (result < 0)
        return result;
    const char *at = parse_list(text + used, normalisation->mean, groups);
    if (at)
        at = parse_list(at, normalisation->factor, groups);
    if (at && *at)
        at = parse_targets(at, dataset, normalisation);
    if (!at || *at) {
        dataset_normalisation_release(normalisation);
        return error_set(error, -EINVAL, "the stored normalisation has damaged constants");
    }
    return 0;
}
