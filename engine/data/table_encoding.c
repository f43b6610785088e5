/* table_encoding.c: rows of a table become samples, by what the survey of the training table found.
 * See table_reader.h. */
#include "engine/data/reader.h"
#include "engine/data/table_reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

/* A row that is left out: neither an error nor a sample. */
enum { ROW_LEFT_OUT = 1 };

static int report_cell(const struct table_column *column, const struct table_cell *cell,
                       const char *what, struct error *error)
{
    char shown[CSV_SHOWN_SIZE], name[CSV_SHOWN_SIZE];

    return error_set(error, -EINVAL, "%s:%lld: \"%s\" in the column %s %s", cell->path,
                     (long long)cell->line, csv_cell_show(cell->text, cell->length, shown),
                     csv_cell_show(column->name, strlen(column->name), name), what);
}

static const char other_unit[] =
    "has another unit than the first number of the training data there; convert it";

static int target_store(struct table_reader *reader, struct table_column *column,
                        const struct table_cell *cell, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    enum table_unit unit;
    const char *fault;
    char what[128];
    double value;

    if (table_cell_is_missing(reader->config, cell->text, cell->length)) {
        reader->without_target++;
        return ROW_LEFT_OUT;
    }
    if (dataset->target == DATASET_TARGET_CLASS) {
        int number = label_names_number(&reader->labels, cell->text, cell->length, cell->path,
                                        cell->line, error);
        dataset->labels[reader->rows] = number;
        return number < 0 ? number : 0;
    }
    unit = column->unit;
    if (!plain_label_parse(dataset->plain_targets, cell->text, cell->length, &value) &&
        !table_cell_number_with_unit(reader->config, cell->text, cell->length, &value, &unit))
        return report_cell(column, cell,
                           dataset->plain_targets == DATASET_PLAIN_LABELS
                               ? "is to be predicted, but the labels of the loss "
                                 "binary_cross_entropy are 0 and 1, or true and false"
                               : "is to be predicted, but it is no number; for classes choose the "
                                 "loss cross_entropy",
                           error);
    if (!isfinite((float)value))
        return report_cell(column, cell, "does not fit into a float32", error);
    if (!reader->reference && isinf(reader->lowest[column->target]))
        column->unit = unit; /* of the first one */
    if (unit != column->unit)
        return report_cell(column, cell, other_unit, error);
    fault = plain_target_fault(dataset->plain_targets, value);
    if (fault) {
        snprintf(what, sizeof what, "is to be predicted, %s", fault);
        return report_cell(column, cell, what, error);
    }
    dataset->targets[reader->rows * dataset->target_width + column->target] = (float)value;
    reader->lowest[column->target] = fmin(reader->lowest[column->target], value);
    reader->highest[column->target] = fmax(reader->highest[column->target], value);
    return 0;
}

/* Stores the group or part of the row, or its place in the order. */
static int split_key_store(struct table_reader *reader, const struct table_column *column,
                           const struct table_cell *cell, struct error *error)
{
    const struct dataset_config *config = reader->config;
    double *key = &reader->dataset->split_keys[reader->rows];
    struct table_date date;
    int number;

    if (config->table.split_keys == DATASET_KEYS_PARTS) {
        *key = table_part_find(config, cell);
        return *key >= 0 ? 0
                         : report_cell(column, cell,
                                       "is neither train, validation nor test; correct it, or name "
                                       "the parts by data.split.validation_values and test_values",
                                       error);
    }
    if (config->table.split_keys == DATASET_KEYS_GROUPS) {
        number = label_names_number(&reader->groups, cell->text, cell->length, cell->path,
                                    cell->line, error);
        *key = number;
        return number < 0 ? number : 0;
    }
    if (table_date_parse(cell->text, cell->length, column->order, &date) &&
        (reader->has_dates || reader->rows == 0)) {
        reader->has_dates = true;
        *key = date.days;
        return 0;
    }
    if (!reader->has_dates && table_cell_number(config, cell->text, cell->length, key) &&
        !isnan(*key))
        return 0;
    return report_cell(column, cell,
                       reader->has_dates
                           ? "is no date, as those in front of it are; data.split orders by them"
                           : "is neither a number nor a date; data.split orders by them",
                       error);
}

static int weight_store(struct table_reader *reader, const struct table_column *column,
                        const struct table_cell *cell, struct error *error)
{
    enum table_unit unit;
    double value;

    if (!table_cell_number_with_unit(reader->config, cell->text, cell->length, &value, &unit) ||
        unit != TABLE_NO_UNIT || !(value >= 0) || !isfinite((float)value))
        return report_cell(column, cell, "is no weight of its sample: weights are numbers from 0",
                           error);
    reader->dataset->sample_weights[reader->rows] = (float)value;
    return 0;
}

/* Why the cell is none of its column. */
static const char *fault_of(const struct table_column *column, const struct dataset_config *config,
                            const struct table_cell *cell)
{
    double ignored;

    if (column->kind != TABLE_NUMBER)
        return "is no date";
    if (table_cell_number(config, cell->text, cell->length, &ignored))
        return other_unit;
    return config->table.decimal != DATASET_DECIMAL_COMMA &&
                   table_cell_has_comma(cell->text, cell->length)
               ? "is no number: the training data have decimal points, so write these"
               : "is no number";
}

static int encode_cell(void *context, int32_t place, const struct table_cell *cell,
                       struct error *error)
{
    struct table_reader *reader = context;
    struct table_column *column = &reader->columns->columns[place];
    float *features;
    bool missing;
    int r = 0;

    if (column->is_split_key && reader->dataset->split_keys)
        r = split_key_store(reader, column, cell, error);
    if (r == 0 && column->is_weight && reader->dataset->sample_weights)
        r = weight_store(reader, column, cell, error);
    if (r < 0)
        return r;
    if (column->target >= 0)
        return target_store(reader, column, cell, error);
    if (column->kind == TABLE_LEFT_OUT)
        return 0;
    missing = table_cell_is_missing(reader->config, cell->text, cell->length);
    if (missing && reader->config->table.missing == DATASET_MISSING_ERROR)
        return report_cell(column, cell,
                           "is no value; fill it in, or let missing_values say what becomes of it",
                           error);
    reader->unmarked += missing && !column->marks_missing && reader->reference &&
                        reader->config->table.missing == DATASET_MISSING_INDICATE;
    features = (float *)reader->dataset->buffer + reader->rows * reader->columns->features +
               column->first_feature;
    if (!table_column_encode(column, reader->config, missing ? NULL : cell->text, cell->length,
                             features, &reader->unknown))
        return report_cell(column, cell, fault_of(column, reader->config, cell), error);
    return isfinite(features[0]) ? 0
                                 : report_cell(column, cell, "does not fit into a float32", error);
}

static int rows_grow(struct table_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    size_t capacity = (size_t)(reader->capacity ? reader->capacity * 2 : FIRST_CAPACITY);
    bool classes = dataset->target == DATASET_TARGET_CLASS;
    void **targets = classes ? (void **)&dataset->labels : (void **)&dataset->targets;
    size_t target_bytes = (size_t)dataset->target_width * sizeof(float);
    void *buffer =
        reallocarray(dataset->buffer, capacity, (size_t)reader->columns->features * sizeof(float));
    void *grown;

    if (buffer)
        dataset->buffer = buffer;
    grown = reallocarray(*targets, capacity, target_bytes);
    if (grown)
        *targets = grown;
    if (!buffer || !grown)
        return reader_out_of_memory(reader->table.path, error);
    if (reader->config->unlabelled)
        memset(grown, 0, capacity * target_bytes);
    if (reader->config->table.split_column && !reader->reference) {
        grown = reallocarray(dataset->split_keys, capacity, sizeof *dataset->split_keys);
        if (!grown)
            return reader_out_of_memory(reader->table.path, error);
        dataset->split_keys = grown;
    }
    if (reader->config->table.weight_column && !reader->reference) {
        grown = reallocarray(dataset->sample_weights, capacity, sizeof *dataset->sample_weights);
        if (!grown)
            return reader_out_of_memory(reader->table.path, error);
        dataset->sample_weights = grown;
    }
    reader->capacity = (int64_t)capacity;
    return 0;
}

static bool drops_rows(const struct table_reader *reader)
{
    return reader->config->table.missing == DATASET_MISSING_DROP && !reader->config->unlabelled;
}

/* Finds out first whether the row is left out: then its label makes no class, nor its group one,
 * wherever their columns stand. */
static int find_missing(void *context, int32_t place, const struct table_cell *cell,
                        struct error *error)
{
    const struct table_reader *reader = context;
    const struct table_column *column = &reader->columns->columns[place];

    (void)error;
    return column->target < 0 && column->kind != TABLE_LEFT_OUT &&
                   table_cell_is_missing(reader->config, cell->text, cell->length)
               ? ROW_LEFT_OUT
               : 0;
}

int table_encode_row(void *context, const char *row, const char *end, struct error *error)
{
    struct table_reader *reader = context;
    int r = 0;

    if (reader->rows == reader->capacity)
        r = rows_grow(reader, error);
    if (r == 0 && drops_rows(reader)) {
        r = table_row_visit(&reader->table, row, end, reader->row, reader->column_of, find_missing,
                            reader, error);
        reader->dropped += r == ROW_LEFT_OUT;
    }
    if (r == 0)
        r = table_row_visit(&reader->table, row, end, reader->row, reader->column_of, encode_cell,
                            reader, error);
    if (r == 0 && reader->dataset->targets && !reader->config->unlabelled)
        r = plain_targets_check_row(
            reader->dataset->plain_targets,
            reader->dataset->targets + reader->rows * reader->dataset->target_width,
            reader->dataset->target_width, reader->table.path, reader->table.line, error);
    reader->rows += r == 0;
    reader->row++;
    return r == ROW_LEFT_OUT ? 0 : r;
}
