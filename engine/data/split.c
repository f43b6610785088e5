/* split.c: see split.h. Text and time series are cut at one place; split_rows.c splits the other
 * sets. */
#include "base/cleanup.h"
#include "base/philox.h"
#include "base/string_table.h"
#include "engine/data/reader.h"
#include "engine/data/sampler.h"
#include "engine/data/split_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME(upper, lower, ...) [DATASET_SPLIT_##upper] = #lower,
static const char *const rule_names[] = {SPLIT_RULES(NAME)};
#undef NAME
DEFINE_STRING_TABLE(dataset_split_rule, enum dataset_split_rule, rule_names)

int64_t split_fraction_count(int64_t count, double fraction)
{
    int64_t chosen = llround(fraction * (double)count);

    if (chosen < 1)
        return 1;
    return chosen >= count ? count - 1 : chosen;
}

/* The windows of validation are among those of the whole set. Training ends before the first of
 * them. */
static int split_windows(const struct dataset *dataset, int64_t validation,
                         struct dataset_split *split, struct error *error)
{
    int64_t context = dataset->sample_elements;
    int64_t first = (dataset->count - validation) / context * context;

    if (dataset->count <= context)
        return error_set(error, -EINVAL,
                         "the text has %lld symbols, but a training and a validation part with "
                         "windows of %lld need %lld: take a smaller model.context, a longer text, "
                         "or set validation_fraction to 0",
                         (long long)(dataset->count + context), (long long)context,
                         (long long)(2 * context + 1));
    first = first < context ? context : first;
    split->validation = text_windows(dataset, first, dataset->count - first);
    split->train = text_training_windows(dataset, 0, first > context ? first - context : 1);
    return 0;
}

static int split_text(const struct dataset *dataset, int64_t validation,
                      struct dataset_split *split, struct error *error)
{
    if (dataset->labels_each)
        return split_windows(dataset, validation, split, error);
    split->train.count -= validation;
    split->validation.first = split->train.count;
    split->validation.count = validation;
    split->validation.dataset = dataset;
    return 0;
}

/* The validation part predicts the last rows: the share of those that the set predicts. */
static int split_series(const struct dataset *dataset, double fraction, struct dataset_split *split,
                        struct error *error)
{
    const struct dataset_series *series = &dataset->series;
    int64_t rows = series->end - series->first, held_out = llround(fraction * (double)rows);
    /* of sample 0, in rows of the file */
    int64_t first = series->file_first + series->input;
    int64_t border = series->end - (held_out < 1 ? 1 : held_out) - first; /* from there */
    int64_t train = border < series->horizon ? 0 : (border - series->horizon) / series->stride + 1;
    int64_t validation = border <= 0 ? 0 : (border + series->stride - 1) / series->stride;

    if (train < 1 || validation >= dataset->count)
        return error_set(
            error, -EINVAL,
            "%s: of %lld rows to predict, a validation fraction of %g leaves no sample "
            "of %lld rows and the %lld after them for %s; change the fraction, or use "
            "more rows",
            series->files[0].path, (long long)rows, fraction, (long long)series->input,
            (long long)series->horizon, train < 1 ? "training" : "validation");
    split->train.count = train;
    split->validation.first = validation;
    split->validation.count = dataset->count - validation;
    return 0;
}

static int check_config(const struct dataset *dataset, const struct dataset_split_config *config,
                        struct error *error)
{
    bool in_order =
        dataset_format_is_text(dataset->format) || dataset->format == DATASET_TIME_SERIES;

    if (!(config->fraction >= 0 && config->fraction < 1))
        return error_set(error, -EINVAL,
                         "the validation fraction is %g; it must be at least 0 and below 1",
                         config->fraction);
    if (config->folds && config->fold >= config->folds)
        return error_set(error, -EINVAL,
                         "data.split.fold is %d, but with %d folds the last one is number %d",
                         config->fold, config->folds, config->folds - 1);
    if (in_order && (config->folds ||
                     (config->rule != DATASET_SPLIT_RANDOM && config->rule != DATASET_SPLIT_ORDER)))
        return error_set(error, -EINVAL,
                         "data of the format %s is cut at one place, the validation part is its "
                         "end; leave out data.split",
                         dataset_format_to_string(dataset->format));
    return 0;
}

int dataset_split(const struct dataset *dataset, const struct dataset_split_config *config,
                  struct dataset_split *split, struct error *error)
{
    int r = check_config(dataset, config, error);

    *split = (struct dataset_split){.train = dataset_view_all(dataset),
                                    .validation = {.dataset = dataset},
                                    .test = {.dataset = dataset}};
    if (r < 0)
        return r;
    if (dataset->labels_each)
        split->train = text_training_windows(dataset, 0, dataset->count);
    if (config->fraction == 0 && !config->folds)
        return 0;
    if (dataset->count < 2)
        return error_set(error, -EINVAL,
                         "a data set of one sample cannot be split into training and validation");
    if (dataset->format == DATASET_TIME_SERIES)
        return split_series(dataset, config->fraction, split, error);
    if (dataset_format_is_text(dataset->format))
        return split_text(dataset, split_fraction_count(dataset->count, config->fraction), split,
                          error);
    return split_rows(dataset, config, split, error);
}

int dataset_split_hold_out(struct dataset_split *split, double fraction, uint64_t seed,
                           struct error *error)
{
    const struct dataset_view train = split->train, held_out = split->validation;
    int64_t count = train.count, validates = split_fraction_count(count, fraction), kept = 0;
    AUTO_FREE uint32_t *order = NULL, *indices = NULL;
    AUTO_FREE bool *chosen = NULL;

    if (count < 2 || !split->indices)
        return error_set(error, -EINVAL,
                         "%lld samples cannot be divided into those that train and those that "
                         "validate",
                         (long long)count);
    order = calloc((size_t)count, sizeof *order);
    chosen = calloc((size_t)count, sizeof *chosen);
    indices = calloc((size_t)(count + held_out.count), sizeof *indices);
    if (!order || !chosen || !indices)
        return error_no_memory(error, "the split of %lld samples", (long long)count);
    sampler_permute_stream(seed, philox_stream(PHILOX_SPLIT, 1), order, (uint32_t)count);
    for (int64_t i = 0; i < validates; i++)
        chosen[order[i]] = true;
    split->train = (struct dataset_view){
        .dataset = train.dataset, .indices = indices, .count = count - validates};
    split->validation = (struct dataset_view){
        .dataset = train.dataset, .indices = indices + split->train.count, .count = validates};
    split->test = (struct dataset_view){
        .dataset = train.dataset, .indices = indices + count, .count = held_out.count};
    for (int64_t i = 0; i < count; i++) {
        if (chosen[i])
            indices[split->train.count + i - kept] = train.indices[i];
        else
            indices[kept++] = train.indices[i];
    }
    memcpy(indices + count, held_out.indices, (size_t)held_out.count * sizeof *indices);
    free(split->indices);
    split->indices = indices;
    indices = NULL;
    return 0;
}

void dataset_split_release(struct dataset_split *split)
{
    free(split->indices);
    *split = (struct dataset_split){0};
}
