/* split.c: divides a set into the training and the validation part. */
#include "base/cleanup.h"
#include "base/philox.h"
#include "engine/data/reader.h"
#include "engine/data/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int64_t validation_count(int64_t count, double fraction)
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

static int split_at_random(const struct dataset *dataset, int64_t validation, uint64_t seed,
                           struct dataset_split *split, struct error *error)
{
    uint32_t count = (uint32_t)dataset->count;
    AUTO_FREE uint32_t *order = calloc(count, sizeof *order);
    AUTO_FREE uint8_t *chosen = calloc(count, 1);
    uint32_t *indices = calloc(count, sizeof *indices);

    if (!order || !chosen || !indices) {
        free(indices);
        return error_set(error, -ENOMEM, "not enough memory to split %u samples", count);
    }
    sampler_permute_stream(seed, philox_stream(PHILOX_SPLIT, 0), order, count);
    for (int64_t i = 0; i < validation; i++)
        chosen[order[i]] = 1;

    uint32_t *train = indices, *held_out = indices + (count - validation);
    split->train.indices = train;
    split->train.count = count - validation;
    split->validation =
        (struct dataset_view){.dataset = dataset, .indices = held_out, .count = validation};
    for (uint32_t i = 0; i < count; i++)
        *(chosen[i] ? held_out++ : train++) = i;
    split->indices = indices;
    return 0;
}

int dataset_split(const struct dataset *dataset, double fraction, uint64_t seed,
                  struct dataset_split *split, struct error *error)
{
    *split = (struct dataset_split){.train = dataset_view_all(dataset),
                                    .validation = {.dataset = dataset}};
    if (dataset->labels_each)
        split->train = text_training_windows(dataset, 0, dataset->count);
    if (!(fraction >= 0 && fraction < 1))
        return error_set(error, -EINVAL,
                         "the validation fraction is %g; it must be at least 0 and below 1",
                         fraction);
    if (fraction == 0)
        return 0;
    if (dataset->count < 2)
        return error_set(error, -EINVAL,
                         "a data set of one sample cannot be split into training and validation");
    if (dataset->format == DATASET_TIME_SERIES)
        return split_series(dataset, fraction, split, error);
    int64_t validation = validation_count(dataset->count, fraction);
    if (dataset_format_is_text(dataset->format))
        return split_text(dataset, validation, split, error);
    return split_at_random(dataset, validation, seed, split, error);
}

void dataset_split_release(struct dataset_split *split)
{
    free(split->indices);
    *split = (struct dataset_split){0};
}
