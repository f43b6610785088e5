/* label_names.c: see label_names.h. */
#include "engine/data/label_names.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES_MAX = 1000000,
    CLASSES_MAX = 1000000, /* as model.classes may say */
    ALONE_MIN = 4,         /* so many samples that are all alone in their classes are a mistake */
    FIRST_SLOTS = 8
};

static int32_t *find_slot(const struct label_names *names, const char *text, size_t length)
{
    uint32_t mask = (uint32_t)names->slot_count - 1;
    uint32_t at = (uint32_t)hash_bytes(HASH_START, text, length) & mask;

    while (names->slots[at] >= 0) {
        const char *other = names->names[names->slots[at]].text;

        if (strlen(other) == length && memcmp(other, text, length) == 0)
            break;
        at = (at + 1) & mask;
    }
    return &names->slots[at];
}

static int grow(struct label_names *names, struct error *error)
{
    int32_t slots = names->slot_count ? names->slot_count * 2 : FIRST_SLOTS;
    struct label_name *grown = reallocarray(names->names, (size_t)slots / 2, sizeof *grown);
    int32_t *made = reallocarray(NULL, (size_t)slots, sizeof *made);

    if (grown)
        names->names = grown;
    if (!grown || !made) {
        free(made);
        return error_no_memory(error, "the labels");
    }
    free(names->slots);
    names->slots = made;
    names->slot_count = slots;
    names->capacity = slots / 2;
    memset(made, 0xff, (size_t)slots * sizeof *made); /* -1 */
    for (int32_t i = 0; i < names->count; i++)
        *find_slot(names, names->names[i].text, strlen(names->names[i].text)) = i;
    return 0;
}

int label_names_number(struct label_names *names, const char *text, size_t length, const char *path,
                       int64_t line, struct error *error)
{
    int32_t *slot;
    char *copy;

    if (names->count == names->capacity && grow(names, error) < 0)
        return error->code;
    slot = find_slot(names, text, length);
    if (*slot >= 0)
        return *slot;
    if (names->count == NAMES_MAX)
        return error_set(error, -EINVAL,
                         "%s:%lld: this is the label number %d that differs from all others; is "
                         "label_column right?",
                         path, (long long)line, NAMES_MAX + 1);
    copy = strndup(text, length);
    if (!copy)
        return error_no_memory(error, "the labels");
    names->names[names->count] = (struct label_name){copy, path, line};
    *slot = names->count;
    return names->count++;
}

void label_names_release(struct label_names *names)
{
    for (int32_t i = 0; i < names->count; i++)
        free(names->names[i].text);
    free(names->names);
    free(names->slots);
    *names = (struct label_names){0};
}

/* ---- classes ---- */

int label_names_report(const struct label_name *name, const char *remedy, struct error *error)
{
    char shown[CSV_SHOWN_SIZE];

    return error_set(error, -EINVAL, "%s:%lld: the label \"%s\" %s", name->path,
                     (long long)name->line, csv_cell_show(name->text, strlen(name->text), shown),
                     remedy);
}

static bool is_number(const struct label_name *name)
{
    return csv_cell_is_number(name->text, strlen(name->text));
}

int label_names_find_kind(const struct label_names *names, const struct dataset *dataset,
                          bool *words, struct error *error)
{
    const struct label_name *first = NULL;
    int64_t numbers = 0;

    for (int64_t i = 0; i < dataset->count; i++) {
        const struct label_name *name = &names->names[dataset->labels[i]];

        if (is_number(name))
            numbers++;
        else if (!first)
            first = name;
    }
    *words = first != NULL;
    if (!first || 2 * numbers <= dataset->count)
        return 0;
    return label_names_report(
        first,
        "is no number, but most labels are; correct it or remove the sample; if labels "
        "are names, begin each with a letter (class 1 as c1)",
        error);
}

static int classes_by_number(const struct label_names *names, int32_t limit, int32_t *classes,
                             int32_t *count, struct error *error)
{
    int32_t highest = 0;

    for (int32_t i = 0; i < names->count; i++) {
        const struct label_name *name = &names->names[i];
        double value = -1;

        if (!is_number(name))
            return label_names_report(
                name,
                "is no number, but the labels of the training data are; correct it or "
                "remove the sample",
                error);
        number_parse(name->text, name->text + strlen(name->text), &value);
        if (value < 0 || value > INT32_MAX - 1 || value != floor(value))
            return label_names_report(
                name, "is no class: labels are whole numbers from 0, or names", error);
        if (value >= CLASSES_MAX)
            return label_names_report(
                name,
                "is too high for a class: is label_column right? Labels are numbers from "
                "0, without large gaps, or names",
                error);
        if (limit && value >= limit)
            return label_names_report(
                name,
                "is not below the number of classes; correct the label or raise the "
                "number of classes",
                error);
        classes[i] = (int32_t)value;
        highest = classes[i] > highest ? classes[i] : highest;
    }
    *count = limit ? limit : highest + 1;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int classes_by_name(const struct label_names *names, char *const *sorted, int32_t count,
                           int32_t *classes, struct error *error)
{
    for (int32_t i = 0; i < names->count; i++) {
        char *const *found =
            bsearch(&names->names[i].text, sorted, (size_t)count, sizeof *sorted, compare_names);

        if (!found)
            return label_names_report(
                &names->names[i],
                "is none of the training data; correct it, or train on data that have "
                "it",
                error);
        classes[i] = (int32_t)(found - sorted);
    }
    return 0;
}

/* A sorted copy of `names`, which the set owns. */
static int adopt_names(char *const *names, int32_t count, struct dataset *dataset,
                       struct error *error)
{
    dataset->class_names = calloc((size_t)count, sizeof *dataset->class_names);
    if (!dataset->class_names)
        return error_no_memory(error, "the names of the classes");
    for (; dataset->class_count < count; dataset->class_count++) {
        dataset->class_names[dataset->class_count] = strdup(names[dataset->class_count]);
        if (!dataset->class_names[dataset->class_count])
            return error_no_memory(error, "the names of the classes");
    }
    qsort(dataset->class_names, (size_t)count, sizeof *dataset->class_names, compare_names);
    return 0;
}

static int adopt_own_names(const struct label_names *names, struct dataset *dataset,
                           struct error *error)
{
    AUTO_FREE char **texts = calloc((size_t)names->count, sizeof *texts);

    if (!texts)
        return error_no_memory(error, "the names of the classes");
    for (int32_t i = 0; i < names->count; i++)
        texts[i] = names->names[i].text;
    return adopt_names(texts, names->count, dataset, error);
}

int label_names_resolve(struct label_names *names, const struct dataset_config *config,
                        const struct dataset *reference, struct dataset *dataset,
                        struct error *error)
{
    AUTO_FREE int32_t *classes = calloc((size_t)names->count, sizeof *classes);
    int32_t limit = reader_class_limit(config, reference);
    bool words = reference && reference->class_names;
    int r = 0;

    if (!classes)
        return error_no_memory(error, "the labels");
    if (!reference)
        r = label_names_find_kind(names, dataset, &words, error);
    if (r < 0)
        return r;
    if (words && !reference && names->count == dataset->count && names->count >= ALONE_MIN)
        return label_names_report(
            &names->names[0],
            "and all others occur once: each sample has a class of its own; is "
            "label_column right?",
            error);
    if (!words) {
        r = classes_by_number(names, limit, classes, &dataset->classes, error);
    } else {
        r = reference ? adopt_names(reference->class_names, reference->class_count, dataset, error)
                      : adopt_own_names(names, dataset, error);
        if (r == 0)
            r = classes_by_name(names, dataset->class_names, dataset->class_count, classes, error);
        dataset->classes = dataset->class_count;
        if (r == 0 && limit && dataset->class_count > limit)
            r = error_set(error, -EINVAL,
                          "the labels have %d different names, more than the %d classes; correct "
                          "the labels or raise the number of classes",
                          dataset->class_count, limit);
        else if (limit)
            dataset->classes = limit;
    }
    for (int64_t i = 0; r == 0 && i < dataset->count; i++)
        dataset->labels[i] = classes[dataset->labels[i]];
    return r;
}
