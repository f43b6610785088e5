/* table_labels.c: the classes of a table's labels; see table_columns.h. */
#include "base/cleanup.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_values(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return (first > second) - (first < second);
}

static int read_values(const struct label_names *names, const struct dataset_config *config,
                       double *values, struct error *error)
{
    for (int32_t i = 0; i < names->count; i++) {
        const struct label_name *name = &names->names[i];

        if (!table_cell_number(config, name->text, strlen(name->text), &values[i]) ||
            !isfinite(values[i]))
            return label_names_report(
                name, "is no number, but the labels of the training data are; correct it", error);
    }
    return 0;
}

/* Whether all labels are whole numbers below the configured number of classes. */
static bool count_from_zero(const double *values, int32_t count, int32_t limit)
{
    for (int32_t i = 0; i < count; i++)
        if (values[i] < 0 || values[i] >= limit || values[i] != floor(values[i]))
            return false;
    return limit > 0;
}

/* The labels of the training table: sorts them, each once. */
static int adopt_values(const struct label_names *names, const double *values, int32_t limit,
                        struct dataset *dataset, struct error *error)
{
    struct table_columns *columns = dataset->table;
    size_t count = (size_t)names->count;

    columns->label_values = malloc(count * sizeof *values);
    if (!columns->label_values)
        return error_no_memory(error, "the labels");
    memcpy(columns->label_values, values, count * sizeof *values);
    qsort(columns->label_values, count, sizeof *values, compare_values);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || columns->label_values[i] != columns->label_values[columns->label_count - 1])
            columns->label_values[columns->label_count++] = columns->label_values[i];
    for (int32_t i = 0; i < names->count; i++)
        if (2 * (int64_t)names->count > dataset->count && values[i] != floor(values[i]))
            return label_names_report(&names->names[i],
                                      "is a class of its own, as most labels are: for numbers to "
                                      "predict choose the loss mse",
                                      error);
    if (limit && columns->label_count > limit)
        return error_set(error, -EINVAL,
                         "there are %d different labels, more than the %d classes; correct the "
                         "labels or raise the number of classes",
                         columns->label_count, limit);
    return 0;
}

/* The text of all labels of this value, if that is one with zeros in front, such as 02134; NULL:
 * the number says it. */
static const char *find_code(const struct label_names *names, const double *values, double value)
{
    const char *code = NULL;

    for (int32_t i = 0; i < names->count; i++) {
        if (values[i] != value)
            continue;
        if (code || !table_text_has_zeros(names->names[i].text, strlen(names->names[i].text)))
            return NULL;
        code = names->names[i].text;
    }
    return code;
}

static bool any_has_zeros(const struct label_names *names)
{
    for (int32_t i = 0; i < names->count; i++)
        if (table_text_has_zeros(names->names[i].text, strlen(names->names[i].text)))
            return true;
    return false;
}

/* The name of a class of numbers: that of the training data, or what its labels say. NULL: no
 * memory. */
static char *make_name(const struct label_names *names, const double *values,
                       const struct dataset *reference, bool has_codes, int32_t class)
{
    const struct table_columns *columns = reference->table;
    double value = columns->label_values[class];
    const char *code = has_codes ? find_code(names, values, value) : NULL;
    char text[NUMBER_TEXT_BYTES];

    if (reference->class_names)
        return strdup(reference->class_names[class]);
    return strdup(code ? code : number_format(value, text));
}

/* Names the classes of numbers, unless they count from 0. `reference`: the training set, which may
 * be this one. */
static int name_classes(const struct label_names *names, const double *values,
                        const struct dataset *reference, struct dataset *dataset,
                        struct error *error)
{
    const struct table_columns *columns = reference->table;
    int32_t count = columns->label_count;
    bool has_codes = reference == dataset && any_has_zeros(names);
    AUTO_FREE char **made = NULL;

    if (reference == dataset ? !has_codes && columns->label_values[0] == 0 &&
                                   columns->label_values[count - 1] == count - 1
                             : !reference->class_names)
        return 0;
    made = calloc((size_t)count, sizeof *made);
    for (int32_t i = 0; made && i < count; i++) {
        made[i] = make_name(names, values, reference, has_codes, i);
        if (!made[i]) {
            while (i > 0)
                free(made[--i]);
            return error_no_memory(error, "the names of the classes");
        }
    }
    if (!made)
        return error_no_memory(error, "the names of the classes");
    dataset->class_names = TAKE_POINTER(made);
    dataset->class_count = count;
    return 0;
}

/* Replaces the labels by the places of their values. */
static int place_labels(const struct label_names *names, const double *values,
                        const struct table_columns *columns, struct dataset *dataset,
                        struct error *error)
{
    AUTO_FREE int32_t *classes = calloc((size_t)names->count, sizeof *classes);

    if (!classes)
        return error_no_memory(error, "the labels");
    for (int32_t i = 0; i < names->count; i++) {
        const double *found =
            columns ? bsearch(&values[i], columns->label_values, (size_t)columns->label_count,
                              sizeof *values, compare_values)
                    : NULL;

        if (columns && !found)
            return label_names_report(&names->names[i],
                                      "is none of the training data; correct it, or train on data "
                                      "that have it",
                                      error);
        classes[i] = columns ? (int32_t)(found - columns->label_values) : (int32_t)values[i];
    }
    for (int64_t i = 0; i < dataset->count; i++)
        dataset->labels[i] = classes[dataset->labels[i]];
    return 0;
}

int table_labels_resolve(struct label_names *names, const struct dataset_config *config,
                         const struct dataset *reference, struct dataset *dataset,
                         struct error *error)
{
    AUTO_FREE double *values = calloc((size_t)names->count, sizeof *values);
    const struct table_columns *columns = reference ? reference->table : dataset->table;
    int32_t limit = config->classes;
    bool words = reference && reference->class_names && !columns->label_values;
    int r = 0;

    if (!values)
        return error_no_memory(error, "the labels");
    if (!reference)
        r = label_names_find_kind(names, dataset, &words, error);
    if (r < 0 || words)
        return r < 0 ? r : label_names_resolve(names, config, reference, dataset, error);
    r = read_values(names, config, values, error);
    if (r < 0)
        return r;
    if (reference ? !columns->label_values : count_from_zero(values, names->count, limit)) {
        if (!count_from_zero(values, names->count, limit))
            return label_names_report(&names->names[0],
                                      "or another one is no whole number below the number of "
                                      "classes, but those of the training data are",
                                      error);
        dataset->classes = limit;
        return place_labels(names, values, NULL, dataset, error);
    }
    if (!reference)
        r = adopt_values(names, values, limit, dataset, error);
    if (r == 0)
        r = name_classes(names, values, reference ? reference : dataset, dataset, error);
    dataset->classes = limit ? limit : columns->label_count;
    return r < 0 ? r : place_labels(names, values, columns, dataset, error);
}
