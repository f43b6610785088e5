/* metric_kinds.c: see metric_kinds.h. */
#include "engine/train/metric_kinds.h"

#include <stdio.h>
#include <string.h>

#define NAME(upper, lower, ...) [METRIC_##upper] = #lower,
static const char *const metric_kind_names[] = {METRIC_KINDS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(metric_kind, enum metric_kind, metric_kind_names)

#define TRAITS(upper, lower, traits, ...) [METRIC_##upper] = (traits),
static const unsigned metric_traits[] = {METRIC_KINDS(TRAITS)};
#undef TRAITS

const char *metric_name(enum metric_subset subset, enum metric_kind kind)
{
#define NAMES(upper, lower, ...)                                    \
    [METRIC_##upper] = {[METRIC_VALIDATION] = "validation_" #lower, \
                        [METRIC_TEST] = "test_" #lower,             \
                        [METRIC_LAST_TEST] = "last_test_" #lower},
    static const char *const names[METRIC_COUNT][METRIC_SUBSETS] = {METRIC_KINDS(NAMES)};
#undef NAMES

    return names[kind][subset];
}

int metric_of_name(const char *name)
{
    static const char *const prefixes[] = {"train_", "validation_"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return metric_kind_from_string(name + strlen(prefixes[i]));
    return -1;
}

bool metric_has(enum metric_kind kind, unsigned trait)
{
    return metric_traits[kind] & trait;
}

int metric_head_of_name(const struct metric_heads *heads, const char *name)
{
    for (int i = 0; i < heads->count; i++) {
        char own[METRIC_HEAD_NAME_MAX];

        snprintf(own, sizeof own, METRIC_OF_HEAD, heads->names[i]);
        if (strcmp(own, name) == 0)
            return i;
    }
    return -1;
}

/* ---- which ---- */

unsigned metric_task(const struct dataset *dataset, const struct metric_heads *heads)
{
    if (heads->count)
        return METRIC_OF_HEADS;
    if (heads->embedding)
        return METRIC_OF_EMBEDDINGS;
    if (dataset_format_is_text(dataset->format))
        return METRIC_OF_TEXT;
    if (dataset->target == DATASET_TARGET_CLASS)
        return METRIC_OF_CLASSES;
    return dataset->plain_targets == DATASET_PLAIN_LABELS ? METRIC_OF_LABELS : METRIC_OF_VALUES;
}

metric_set metrics_of_trait(unsigned trait)
{
    metric_set set = 0;

    for (int i = 0; i < METRIC_COUNT; i++)
        set |= metric_has(i, trait) ? metric_bit(i) : 0;
    return set;
}

metric_set metrics_of_sums(unsigned task)
{
    return metrics_of_trait(task) & ~metrics_of_trait(METRIC_READS);
}

metric_set metrics_usual(const struct dataset *dataset, unsigned task, enum metric_subset subset)
{
    metric_set set = metrics_of_trait(task) & ~metrics_of_trait(METRIC_ASKED);

    if (task == METRIC_OF_EMBEDDINGS && subset == METRIC_VALIDATION)
        return metrics_of_sums(task);
    if (task != METRIC_OF_CLASSES || dataset->classes == 2)
        return set;
    return subset == METRIC_VALIDATION ? metrics_of_sums(task) : set & ~metric_bit(METRIC_AUC);
}
