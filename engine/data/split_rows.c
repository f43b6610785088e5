/* split_rows.c: chooses the validation part among samples that do not depend on each other: at
 * random, class by class, by their order, group by group or as a column says. */
#include "base/cleanup.h"
#include "base/philox.h"
#include "engine/data/gather.h"
#include "engine/data/sampler.h"
#include "engine/data/split_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum part {
    PART_TRAIN = DATASET_PART_TRAIN,
    PART_VALIDATION = DATASET_PART_VALIDATION,
    PART_TEST = DATASET_PART_TEST,
    PART_NEITHER,
    PART_COUNT
};

struct choice {
    const struct dataset *dataset;
    const struct dataset_split_config *config;
    uint32_t count;
    int64_t wanted;  /* samples that validate, by the fraction */
    uint32_t *order; /* [count], the rule's: its first or last samples are chosen */
    uint8_t *parts;  /* [count], enum part of each sample */
};

static int out_of_memory(const struct choice *choice, struct error *error)
{
    return error_set(error, -ENOMEM, "not enough memory to split %u samples", choice->count);
}

static void permute(struct choice *choice)
{
    sampler_permute_stream(choice->config->seed, philox_stream(PHILOX_SPLIT, 0), choice->order,
                           choice->count);
}

/* Puts order[first..end) into the validation part. */
static void choose_range(struct choice *choice, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++)
        choice->parts[choice->order[i]] = PART_VALIDATION;
}

/* ---- at random ------------------------------------------------------------------------------- */

static int choose_random(struct choice *choice, struct error *error)
{
    const struct dataset_split_config *config = choice->config;
    int64_t count = choice->count;

    (void)error;
    permute(choice);
    if (config->folds)
        choose_range(choice, count * config->fold / config->folds,
                     count * (config->fold + 1) / config->folds);
    else
        choose_range(choice, 0, choice->wanted);
    return 0;
}

/* ---- class by class -------------------------------------------------------------------------- */

/* The classes of the samples in `order`, and how many samples come before each class. */
static int sort_by_class(struct choice *choice, struct error *error)
{
    const struct dataset *dataset = choice->dataset;
    AUTO_FREE int32_t *classes = calloc(choice->count, sizeof *classes);
    AUTO_FREE int64_t *before = calloc((size_t)dataset->classes + 1, sizeof *before);
    AUTO_FREE uint32_t *shuffled = calloc(choice->count, sizeof *shuffled);

    if (!classes || !before || !shuffled)
        return out_of_memory(choice, error);
    for (uint32_t i = 0; i < choice->count; i++) {
        const uint8_t *raw = gather_sample(dataset, i, error);

        if (!raw)
            return error->code;
        classes[i] = gather_label(dataset, i, raw);
        before[classes[i] + 1]++;
    }
    for (int32_t class = 0; class < dataset->classes; class ++)
        before[class + 1] += before[class];
    memcpy(shuffled, choice->order, choice->count * sizeof *shuffled);
    for (uint32_t i = 0; i < choice->count; i++)
        choice->order[before[classes[shuffled[i]]]++] = shuffled[i];
    return 0;
}

/* The shuffled samples are put class behind class. Every `folds`th of them, or by an even stride
 * for a fraction, is chosen: each class then has its share to within one sample, and all together
 * have theirs. */
static int choose_stratified(struct choice *choice, struct error *error)
{
    const struct dataset_split_config *config = choice->config;
    int64_t count = choice->count;
    int r;

    if (choice->dataset->target != DATASET_TARGET_CLASS)
        return error_set(error, -EINVAL,
                         "data.split.by is stratified, but numbers are predicted, which have no "
                         "classes; choose random or group");
    permute(choice);
    r = choice->dataset->is_absent ? 0 : sort_by_class(choice, error); /* a plan needs counts */
    for (int64_t i = 0; i < count && r == 0; i++)
        if (config->folds ? i % config->folds == config->fold
                          : ((i + 1) * choice->wanted + count / 2) / count >
                                (i * choice->wanted + count / 2) / count)
            choice->parts[choice->order[i]] = PART_VALIDATION;
    return r;
}

/* ---- by their order -------------------------------------------------------------------------- */

struct keyed {
    double key;
    uint32_t index;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *left = a, *right = b;

    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static int sort_by_key(struct choice *choice, struct error *error)
{
    const double *keys = choice->dataset->split_keys;
    AUTO_FREE struct keyed *sorted = calloc(choice->count, sizeof *sorted);

    if (!sorted)
        return out_of_memory(choice, error);
    for (uint32_t i = 0; i < choice->count; i++)
        sorted[i] = (struct keyed){.key = keys ? keys[i] : 0, .index = i};
    if (keys)
        qsort(sorted, choice->count, sizeof *sorted, compare_keyed);
    for (uint32_t i = 0; i < choice->count; i++)
        choice->order[i] = sorted[i].index;
    return 0;
}

/* Folds are those of scikit-learn's TimeSeriesSplit: training never looks into the future. */
static int choose_by_order(struct choice *choice, struct error *error)
{
    const struct dataset_split_config *config = choice->config;
    int64_t count = choice->count, size = count / (config->folds + 1);
    int64_t first = count - (config->folds - config->fold) * size;
    int r = sort_by_key(choice, error);

    if (r < 0)
        return r;
    if (!config->folds) {
        choose_range(choice, count - choice->wanted, count);
        return 0;
    }
    choose_range(choice, first, first + size);
    for (int64_t i = first + size; i < count; i++)
        choice->parts[choice->order[i]] = PART_NEITHER;
    return 0;
}

/* ---- group by group -------------------------------------------------------------------------- */

struct group {
    int64_t samples;
    uint32_t place; /* in random order */
    int32_t number;
};

static int compare_places(const void *a, const void *b)
{
    const struct group *left = a, *right = b;

    return left->place < right->place ? -1 : left->place > right->place;
}

static int compare_sizes(const void *a, const void *b)
{
    const struct group *left = a, *right = b;

    if (left->samples != right->samples)
        return left->samples > right->samples ? -1 : 1;
    return compare_places(a, b);
}

/* In random order, each group is taken that brings the part closer to the wanted size. */
static void take_groups(const struct choice *choice, struct group *groups, int32_t count,
                        bool *taken)
{
    int64_t samples = 0;

    qsort(groups, (size_t)count, sizeof *groups, compare_places);
    for (int32_t i = 0; i < count; i++) {
        int64_t more = samples + groups[i].samples;

        if (more >= choice->count ||
            llabs(more - choice->wanted) >= llabs(samples - choice->wanted))
            continue;
        taken[groups[i].number] = true;
        samples = more;
    }
    if (samples > 0)
        return;
    qsort(groups, (size_t)count, sizeof *groups, compare_sizes);
    taken[groups[count - 1].number] = true; /* all are far too large: the smallest one */
}

/* The largest group first, each into the fold that has the fewest samples (scikit-learn's
 * GroupKFold). */
static int deal_groups(const struct choice *choice, struct group *groups, int32_t count,
                       bool *taken, struct error *error)
{
    const struct dataset_split_config *config = choice->config;
    AUTO_FREE int64_t *folds = calloc((size_t)config->folds, sizeof *folds);

    if (!folds)
        return out_of_memory(choice, error);
    qsort(groups, (size_t)count, sizeof *groups, compare_sizes);
    for (int32_t i = 0; i < count; i++) {
        int least = 0;

        for (int fold = 1; fold < config->folds; fold++)
            if (folds[fold] < folds[least])
                least = fold;
        folds[least] += groups[i].samples;
        taken[groups[i].number] = least == config->fold;
    }
    return 0;
}

static int count_groups(const struct choice *choice, struct group **groups, int32_t *count,
                        struct error *error)
{
    const double *keys = choice->dataset->split_keys;
    AUTO_FREE uint32_t *places = NULL;

    *count = 0;
    for (uint32_t i = 0; i < choice->count; i++)
        if (keys[i] >= *count)
            *count = (int32_t)keys[i] + 1;
    *groups = calloc((size_t)*count, sizeof **groups);
    places = calloc((size_t)*count, sizeof *places);
    if (!*groups || !places)
        return out_of_memory(choice, error);
    sampler_permute_stream(choice->config->seed, philox_stream(PHILOX_SPLIT, 0), places,
                           (uint32_t)*count);
    for (int32_t i = 0; i < *count; i++)
        (*groups)[i] = (struct group){.number = i, .place = places[i]};
    for (uint32_t i = 0; i < choice->count; i++)
        (*groups)[(int32_t)keys[i]].samples++;
    return 0;
}

static int choose_groups(struct choice *choice, struct error *error)
{
    const struct dataset *dataset = choice->dataset;
    const struct dataset_split_config *config = choice->config;
    AUTO_FREE struct group *groups = NULL;
    AUTO_FREE bool *taken = NULL;
    int32_t count, least = config->folds ? config->folds : 2;
    int r;

    if (!dataset->split_keys)
        return error_set(error, -EINVAL,
                         "data.split.by is group: data.split.column has to name the column whose "
                         "texts are the groups");
    r = count_groups(choice, &groups, &count, error);
    if (r < 0)
        return r;
    if (count < least)
        return error_set(error, -EINVAL,
                         "the column of data.split has %d different groups, but %d are needed%s",
                         count, least, config->folds ? "; take fewer data.split.folds" : "");
    taken = calloc((size_t)count, sizeof *taken);
    if (!taken)
        return out_of_memory(choice, error);
    if (config->folds)
        r = deal_groups(choice, groups, count, taken, error);
    else
        take_groups(choice, groups, count, taken);
    for (uint32_t i = 0; i < choice->count && r == 0; i++)
        choice->parts[i] = taken[(int32_t)dataset->split_keys[i]] ? PART_VALIDATION : PART_TRAIN;
    return r;
}

/* ---- by the parts that a column names -------------------------------------------------------- */

static int choose_by_column(struct choice *choice, struct error *error)
{
    const double *keys = choice->dataset->split_keys;
    int64_t sizes[PART_COUNT] = {0};

    if (!keys)
        return error_set(error, -EINVAL,
                         "data.split.by is column: data.split.column has to name the column that "
                         "says which samples validate");
    for (uint32_t i = 0; i < choice->count; i++) {
        choice->parts[i] = (uint8_t)keys[i];
        sizes[choice->parts[i]]++;
    }
    for (int part = PART_TRAIN; part <= PART_VALIDATION; part++)
        if (sizes[part] == 0)
            return error_set(error, -EINVAL,
                             "the column of data.split has no sample for %s; correct it, or name "
                             "the parts by data.split.validation_values and test_values",
                             part == PART_TRAIN ? "training" : "validation");
    return 0;
}

/* ---- the lists ------------------------------------------------------------------------------- */

static int make_views(const struct choice *choice, struct dataset_split *split, struct error *error)
{
    struct dataset_view *const views[PART_COUNT] = {[PART_TRAIN] = &split->train,
                                                    [PART_VALIDATION] = &split->validation,
                                                    [PART_TEST] = &split->test};
    int64_t sizes[PART_COUNT] = {0};
    uint32_t *indices = calloc(choice->count, sizeof *indices), *next[PART_COUNT] = {indices};

    if (!indices)
        return out_of_memory(choice, error);
    for (uint32_t i = 0; i < choice->count; i++)
        sizes[choice->parts[i]]++;
    for (int part = 0; part < PART_NEITHER; part++) {
        *views[part] = (struct dataset_view){
            .dataset = choice->dataset, .indices = next[part], .count = sizes[part]};
        next[part + 1] = next[part] + sizes[part];
    }
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->parts[i] != PART_NEITHER)
            *next[choice->parts[i]]++ = i;
    split->indices = indices;
    return 0;
}

int split_rows(const struct dataset *dataset, const struct dataset_split_config *config,
               struct dataset_split *split, struct error *error)
{
    static int (*const rules[])(struct choice *, struct error *) = {
        [DATASET_SPLIT_RANDOM] = choose_random,    [DATASET_SPLIT_STRATIFIED] = choose_stratified,
        [DATASET_SPLIT_ORDER] = choose_by_order,   [DATASET_SPLIT_GROUP] = choose_groups,
        [DATASET_SPLIT_COLUMN] = choose_by_column,
    };
    uint32_t count = (uint32_t)dataset->count;
    int32_t parts = config->folds + (config->rule == DATASET_SPLIT_ORDER);
    AUTO_FREE uint32_t *order = calloc(count, sizeof *order);
    AUTO_FREE uint8_t *chosen = calloc(count, sizeof *chosen);
    struct choice choice = {.dataset = dataset,
                            .config = config,
                            .count = count,
                            .wanted = split_fraction_count(count, config->fraction),
                            .order = order,
                            .parts = chosen};
    int r;

    if (!order || !chosen)
        return out_of_memory(&choice, error);
    if (config->folds && count < (uint32_t)parts)
        return error_set(error, -EINVAL,
                         "%u samples cannot be cut into the %d parts of data.split.folds; take "
                         "fewer folds",
                         count, parts);
    r = rules[config->rule](&choice, error);
    return r == 0 ? make_views(&choice, split, error) : r;
}
