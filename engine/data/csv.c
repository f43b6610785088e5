/* csv.c: tables of numbers as text (csv_table.h). One column is the target, the others are the
 * sample. Every fault names file, line and column (both from 1). */
#include "base/cleanup.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

struct csv_reader {
    const struct dataset_config *config;
    const struct dataset *reference;
    struct dataset *dataset;
    struct csv_table table;
    double divide_by;
    int32_t class_limit,
        highest; /* class_limit 0: the labels decide; highest: the highest label so far */

    int32_t label_column; /* from 0; -1: there is none */
    /* unlabelled: [columns], the feature that each column is, -1: none; NULL: all but the label
     * are, in their order; owned */
    int32_t *feature_of;
    int64_t rows, capacity;
};

/* ---- faults ---- */

/* Reports a cell that holds words. The remedy depends on whether it is the label. */
static int report_word(const struct csv_reader *reader, int32_t column, const char *cell,
                       size_t length, struct error *error)
{
    bool label = column == reader->label_column;
    bool classes = reader->dataset->target == DATASET_TARGET_CLASS;
    const char *what = "", *remedy;
    char shown[CSV_SHOWN_SIZE], own[CSV_SHOWN_SIZE + 128];

    if (label && classes) {
        what = "the class ";
        remedy = "number the classes from 0 and write these numbers";
    } else if (label) {
        what = "the value to predict ";
        remedy = "correct it, or, for classes, choose cross entropy and number them from 0";
    } else {
        const char *name = reader->table.names ? reader->table.names[column] : "";

        snprintf(shown, sizeof shown, "%d", column);
        snprintf(own, sizeof own,
                 "write a number or leave the column out; if it holds the classes, number them "
                 "from 0 and set label_column to \"%s\"",
                 *name ? csv_cell_show(name, strlen(name), shown) : shown);
        remedy = own;
    }
    return error_set(error, -EINVAL, "%s:%lld, column %d: %s\"%s\" is not a number; %s%s",
                     reader->table.path, (long long)reader->table.line, column + 1, what,
                     csv_cell_show(cell, length, shown), remedy,
                     reader->rows == 0 && !reader->table.names
                         ? "; if this row names the columns, set header to yes"
                         : "");
}

static bool is_read(const struct csv_reader *reader, int32_t column)
{
    return !reader->feature_of || reader->feature_of[column] >= 0;
}

/* Reports why the row could not be read: the number of cells is wrong, or a cell is no number. */
static int report_row(const struct csv_reader *reader, const char *row, const char *end,
                      struct error *error)
{
    const char *cell;
    size_t length;
    int32_t count = csv_cells_count(&reader->table, row, end);

    if (count != reader->table.columns)
        return csv_report_columns(&reader->table, count, error);
    for (int32_t column = 1; csv_cell_next(&reader->table, &row, end, &cell, &length); column++) {
        if (length == 0 && is_read(reader, column - 1))
            return error_set(error, -EINVAL,
                             "%s:%lld, column %d: the cell is empty; fill it in or remove the row",
                             reader->table.path, (long long)reader->table.line, column);
        if (!csv_cell_is_number(cell, length) && is_read(reader, column - 1))
            return report_word(reader, column - 1, cell, length, error);
    }
    return error_set(error, -EINVAL, "%s:%lld: the row cannot be read; check its quotes",
                     reader->table.path, (long long)reader->table.line);
}

static int report_value(const struct csv_reader *reader, int32_t column, double value,
                        const char *what, struct error *error)
{
    return error_set(error, -EINVAL, "%s:%lld, column %d: %.9g %s", reader->table.path,
                     (long long)reader->table.line, column + 1, value, what);
}

/* ---- the first rows ---- */

static int label_column_choose(struct csv_reader *reader, struct error *error)
{
    return csv_column_find_or_last(&reader->table, "label_column", reader->config->csv.label_column,
                                   reader->reference ? reader->reference->label_column : -1,
                                   &reader->label_column, error);
}

/* Finds a column of the training data by its name, in a table without what is to be predicted. */
static int feature_find(struct csv_reader *reader, int32_t feature, struct error *error)
{
    const struct csv_table *table = &reader->table;
    const char *name = reader->reference->column_names[feature];
    char shown[CSV_SHOWN_SIZE];

    /* mostly it is in its place, before or behind the label */
    for (int32_t i = 0; i < table->columns; i++) {
        int32_t column = (feature + i) % table->columns;

        if (reader->feature_of[column] < 0 && strcmp(table->names[column], name) == 0) {
            reader->feature_of[column] = feature;
            return 0;
        }
    }
    return error_set(error, -EINVAL, "%s lacks the column \"%s\" of the training data", table->path,
                     csv_cell_show(name, strlen(name), shown));
}

/* Which columns are the features, where labels are not known: those that have their names, or
 * without names all, or all but the label. */
static int features_choose(struct csv_reader *reader, struct error *error)
{
    const struct dataset *reference = reader->reference;
    const struct csv_table *table = &reader->table;
    int64_t wanted = reference->sample_elements;
    int32_t feature = 0;
    int r = 0;

    reader->label_column = -1;
    reader_set_shape(reader->dataset, reference->shape, reference->rank);
    reader->feature_of = malloc((size_t)table->columns * sizeof *reader->feature_of);
    if (!reader->feature_of)
        return reader_out_of_memory(table->path, error);
    memset(reader->feature_of, 0xff, (size_t)table->columns * sizeof *reader->feature_of); /* -1 */
    if (table->names && reference->column_names) {
        for (; feature < wanted && r == 0; feature++)
            r = feature_find(reader, feature, error);
        return r;
    }
    if (table->columns != wanted && table->columns != wanted + 1)
        return error_set(error, -EINVAL,
                         "%s:%lld: the row has %d columns, but samples of the training data have "
                         "%lld, and perhaps a label",
                         table->path, (long long)table->line, table->columns, (long long)wanted);
    for (int32_t i = 0; i < table->columns; i++)
        if (table->columns == wanted || i != reference->label_column)
            reader->feature_of[i] = feature++;
    return 0;
}

static int shape_choose(struct csv_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;
    int64_t width = reader->table.columns - 1;

    if (config->rank == 0) {
        reader_set_shape(reader->dataset, &width, 1);
        return 0;
    }
    reader_set_shape(reader->dataset, config->shape, config->rank);
    if (reader->dataset->sample_elements != width) {
        char shape[128];
        return error_set(
            error, -EINVAL,
            "%s has %lld columns beside the label, but the shape %s wants %lld; correct the shape",
            reader->table.path, (long long)width,
            reader_format_shape(config->shape, config->rank, shape, sizeof shape),
            (long long)reader->dataset->sample_elements);
    }
    return 0;
}

static int table_begin(void *context, struct error *error)
{
    struct csv_reader *reader = context;
    const struct csv_table *table = &reader->table;
    int result;

    if (reader->config->unlabelled)
        return features_choose(reader, error);
    if (table->columns < 2)
        return error_set(error, -EINVAL,
                         "%s:%lld: the first row has one column only; a label and at least one "
                         "number are needed: is the delimiter '%c' right?",
                         table->path, (long long)table->line, table->delimiter);
    result = label_column_choose(reader, error);
    return result == 0 ? shape_choose(reader, error) : result;
}

/* ---- rows ---- */

static int table_grow(struct csv_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    int64_t capacity = reader->capacity ? reader->capacity * 2 : FIRST_CAPACITY;
    size_t row_bytes = (size_t)dataset->sample_elements * sizeof(float);
    bool classes = dataset->target == DATASET_TARGET_CLASS;
    void **column = classes ? (void **)&dataset->labels : (void **)&dataset->targets;

    void *buffer = reallocarray(dataset->buffer, (size_t)capacity, row_bytes);
    if (buffer)
        dataset->buffer = buffer;
    void *targets = reallocarray(*column, (size_t)capacity, sizeof(float));
    if (targets)
        *column = targets;
    if (!buffer || !targets)
        return reader_out_of_memory(reader->table.path, error);
    if (reader->config->unlabelled)
        memset(targets, 0, (size_t)capacity * sizeof(float));
    reader->capacity = capacity;
    return 0;
}

static int label_store(struct csv_reader *reader, double value, struct error *error)
{
    struct dataset *dataset = reader->dataset;

    if (dataset->target == DATASET_TARGET_VALUE) {
        float target = (float)value;
        if (!isfinite(target))
            return report_value(reader, reader->label_column, value, "does not fit into a float32",
                                error);
        const char *fault = plain_target_fault(dataset->plain_targets, value);
        if (fault)
            return report_value(reader, reader->label_column, value, fault, error);
        dataset->targets[reader->rows] = target;
        return 0;
    }
    if (value < 0 || value > INT32_MAX - 1 || value != floor(value))
        return report_value(reader, reader->label_column, value,
                            "is no class: labels are whole numbers from 0 (for numbers as targets "
                            "choose mean squared error)",
                            error);
    int32_t label = (int32_t)value;
    if (reader->class_limit && label >= reader->class_limit)
        return error_set(error, -EINVAL,
                         "%s:%lld, column %d: label %d is not below the %d classes; correct the "
                         "label or raise the number of classes",
                         reader->table.path, (long long)reader->table.line,
                         reader->label_column + 1, label, reader->class_limit);
    if (label > reader->highest)
        reader->highest = label;
    dataset->labels[reader->rows] = label;
    return 0;
}

/* Writes a number into its place in the sample. */
static int feature_store(struct csv_reader *reader, int32_t column, double value, float *sample,
                         struct error *error)
{
    int32_t feature = reader->feature_of              ? reader->feature_of[column]
                      : column > reader->label_column ? column - 1
                                                      : column;

    sample[feature] = (float)(value / reader->divide_by);
    return isfinite(sample[feature])
               ? 0
               : report_value(reader, column, value, "does not fit into a float32", error);
}

/* Behind the cell of a column that is not read; NULL: there is none. */
static const char *cell_skip(const struct csv_reader *reader, const char *at, const char *end)
{
    const char *cell;
    size_t length;

    if (!csv_cell_next(&reader->table, &at, end, &cell, &length))
        return NULL;
    return at ? at - 1 : end;
}

static int row_read(void *context, const char *row, const char *end, struct error *error)
{
    struct csv_reader *reader = context;
    const char *at = row;
    float *sample;
    double value = 0;

    if (reader->rows == reader->capacity && table_grow(reader, error) < 0)
        return -ENOMEM;
    sample = (float *)reader->dataset->buffer + reader->rows * reader->dataset->sample_elements;
    for (int32_t column = 0; column < reader->table.columns; column++) {
        bool last = column == reader->table.columns - 1, read = is_read(reader, column);
        int result = 0;

        at = csv_skip_padding(&reader->table, at, end);
        bool quoted = at < end && *at == '"';
        at = read ? number_parse(at + quoted, end, &value) : cell_skip(reader, at, end);
        if (!at || (read && quoted && (at == end || *at++ != '"')))
            return report_row(reader, row, end, error);
        at = csv_skip_padding_after(&reader->table, at, end);
        if (last ? at != end : at == end || !csv_is_delimiter(&reader->table, *at++))
            return report_row(reader, row, end, error);
        if (column == reader->label_column)
            result = label_store(reader, value, error);
        else if (read)
            result = feature_store(reader, column, value, sample, error);
        if (result < 0)
            return result;
    }
    reader->rows++;
    return 0;
}

/* ---- the whole ---- */

/* Moves the names of the features, in the order of the sample's elements, from the reader to the
 * set. */
static int names_hand_over(struct csv_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;

    if (!reader->table.names)
        return 0;
    dataset->column_names = calloc((size_t)reader->table.columns, sizeof *dataset->column_names);
    if (!dataset->column_names)
        return reader_out_of_memory(reader->table.path, error);
    for (int32_t i = 0, feature = 0; i < reader->table.columns; i++) {
        if (i == reader->label_column)
            dataset->target_name = TAKE_POINTER(reader->table.names[i]);
        else
            dataset->column_names[feature++] = TAKE_POINTER(reader->table.names[i]);
    }
    return 0;
}

static int check_names(const struct csv_reader *reader, struct error *error)
{
    char **own = reader->dataset->column_names;
    char **other = reader->reference ? reader->reference->column_names : NULL;
    char shown[CSV_SHOWN_SIZE], trained[CSV_SHOWN_SIZE];

    if (!own || !other || reader->dataset->sample_elements != reader->reference->sample_elements)
        return 0;
    for (int64_t i = 0; i < reader->dataset->sample_elements; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): every column has a name */
        if (strcmp(own[i], other[i]) != 0)
            return error_set(error, -EINVAL,
                             "%s has the column \"%s\" where the training data have \"%s\"; both "
                             "need the same columns in the same order",
                             reader->table.path, csv_cell_show(own[i], strlen(own[i]), shown),
                             csv_cell_show(other[i], strlen(other[i]), trained));
    return 0;
}

static int table_end(struct csv_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    size_t row_bytes = (size_t)dataset->sample_elements * sizeof(float);
    int result;

    if (reader->rows == 0)
        return error_set(error, -EINVAL, "%s has no row of numbers", reader->table.path);
    void *shrunk = reallocarray(dataset->buffer, (size_t)reader->rows, row_bytes);
    if (shrunk)
        dataset->buffer = shrunk;
    dataset->element = DATASET_FLOAT32;
    dataset->sample_stride = row_bytes;
    dataset->label_column = reader->label_column < 0 ? 0 : reader->label_column;
    if (dataset->target == DATASET_TARGET_CLASS)
        dataset->classes = reader->class_limit ? reader->class_limit : reader->highest + 1;
    dataset->memory_bytes += (size_t)reader->rows * (row_bytes + sizeof(float));
    result = reader->config->unlabelled ? 0 : names_hand_over(reader, error);
    if (result == 0)
        result = check_names(reader, error);
    if (result == 0)
        result = reader_add_block(dataset, dataset->buffer, reader->rows, error);
    return result;
}

int csv_read(const struct dataset_config *config, const struct dataset *reference,
             struct dataset *dataset, struct error *error)
{
    struct csv_reader reader = {.config = config,
                                .reference = reference,
                                .dataset = dataset,
                                .divide_by = config->csv.divide_by != 0 ? config->csv.divide_by : 1,
                                .class_limit = reader_class_limit(config, reference)};
    int result;

    csv_table_init(&reader.table, config);
    reader.table.context = &reader;
    reader.table.begin = table_begin;
    reader.table.read_row = row_read;
    result = csv_table_read(&reader.table, dataset, error);
    if (result == 0)
        result = table_end(&reader, error);
    csv_table_release(&reader.table);
    free(reader.feature_of);
    if (result == 0)
        reader_unmap_all(dataset);
    return result;
}
