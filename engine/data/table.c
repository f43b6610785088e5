/* table.c: tables as people have them (csv_table.h): numbers, categories, dates and missing values.
 * The training table is read twice: a survey finds what each column holds (table_columns.h), then
 * the rows become features. Other tables are encoded by what the survey of the training table
 * found; their columns are matched by name. */
#include "base/cleanup.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256, FEATURES_MAX = 1 << 20 };

struct table_reader {
    const struct dataset_config *config;
    const struct dataset *reference;
    struct dataset *dataset;
    struct csv_table table;
    struct table_columns *columns; /* the set's own, or the reference's, which stays as it is */
    int32_t *column_of;            /* [columns of this table]: in `columns`, -1: none */
    struct label_names labels;     /* CLASS */
    struct label_names groups;     /* of dataset.split_keys */
    bool has_dates;                /* those are dates, because the first one is */
    int64_t row;                   /* of the present reading, with those that are left out */
    int64_t rows, capacity;
    int64_t dropped, without_target, unknown, unmarked; /* rows; and cells */
    double *lowest, *highest;                           /* VALUE: of each value to predict */
    bool told_of_header;
};

/* ---- which columns ---- */

/* Sets the marks of the columns that the configuration names. */
static int mark_columns(const struct csv_table *table, const char *key, const char *const *names,
                        int count, bool *marks, struct error *error)
{
    for (int i = 0; i < count; i++) {
        int32_t column;
        int r = csv_column_find(table, key, names[i], -1, &column, error);

        if (r < 0)
            return r;
        marks[column] = true;
    }
    return 0;
}

static int mark_targets(struct table_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;
    const char *label = config->csv.label_column ? config->csv.label_column : "last";
    bool several = config->table.targets != NULL;
    const char *const *names = several ? config->table.targets : &label;
    int count = several ? config->table.target_count : 1;

    if (count > 1 && config->target == DATASET_TARGET_CLASS)
        return error_set(error, -EINVAL,
                         "targets names %d columns, but the classes of one column are predicted; "
                         "for several numbers choose the loss mse",
                         count);
    for (int i = 0; i < count; i++) {
        struct table_column *column;
        int32_t place;
        int r = csv_column_find(&reader->table, several ? "targets" : "label_column", names[i], -1,
                                &place, error);

        if (r < 0)
            return r;
        column = &reader->columns->columns[place];
        if (column->target >= 0)
            return error_set(error, -EINVAL, "targets names the column %s twice", column->name);
        column->target = i;
    }
    reader->dataset->target_width = count;
    return 0;
}

/* Finds the column that `key` names, which is no feature unless `features` has it. NULL: no column
 * has that name. */
static struct table_column *mark_column_aside(struct table_reader *reader, const char *key,
                                              const char *name, const bool *features,
                                              struct error *error)
{
    int32_t place;
    struct table_column *column;

    if (csv_column_find(&reader->table, key, name, -1, &place, error) < 0)
        return NULL;
    column = &reader->columns->columns[place];
    column->is_ignored |= !features[place];
    return column;
}

static int mark_columns_aside(struct table_reader *reader, const bool *features,
                              struct error *error)
{
    const struct dataset_config *config = reader->config;
    struct table_column *column;

    if (table_parts_check(config, error) < 0)
        return error->code;
    if (config->table.split_column) {
        column = mark_column_aside(reader, "data.split.column", config->table.split_column,
                                   features, error);
        if (!column)
            return error->code;
        column->is_split_key = true;
    }
    if (config->table.weight_column) {
        column = mark_column_aside(reader, "weight_column", config->table.weight_column, features,
                                   error);
        if (!column)
            return error->code;
        column->is_weight = true;
    }
    return 0;
}

static int mark_features(struct table_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;
    const struct csv_table *table = &reader->table;
    size_t count = (size_t)table->columns;
    AUTO_FREE bool *features = calloc(count, sizeof *features);
    AUTO_FREE bool *ignored = calloc(count, sizeof *ignored);
    AUTO_FREE bool *categories = calloc(count, sizeof *categories);
    int r;

    if (!features || !ignored || !categories)
        return reader_out_of_memory(table->path, error);
    r = mark_columns(table, "features", config->table.features, config->table.feature_count,
                     features, error);
    if (r == 0)
        r = mark_columns(table, "ignore", config->table.ignored, config->table.ignored_count,
                         ignored, error);
    if (r == 0)
        r = mark_columns(table, "categories", config->table.categories,
                         config->table.category_count, categories, error);
    for (size_t i = 0; i < count && r == 0; i++) {
        reader->columns->columns[i].is_ignored =
            ignored[i] || (config->table.features && !features[i]);
        reader->columns->columns[i].is_category = categories[i];
    }
    return r == 0 ? mark_columns_aside(reader, features, error) : r;
}

/* Numbers the names of this table's columns from 0, in their order. -EINVAL: two are the same. */
static int index_names(const struct csv_table *table, struct label_names *index,
                       struct error *error)
{
    char shown[CSV_SHOWN_SIZE];

    for (int32_t i = 0; table->names && i < table->columns; i++) {
        int number = label_names_number(index, table->names[i], strlen(table->names[i]),
                                        table->path, table->line, error);

        if (number < 0)
            return number;
        if (number != i)
            return error_set(error, -EINVAL,
                             "%s:%lld: two columns are named \"%s\"; give one another name",
                             table->path, (long long)table->line,
                             csv_cell_show(table->names[i], strlen(table->names[i]), shown));
    }
    return 0;
}

/* The columns of the training table, as the configuration marks them. */
static int columns_begin(void *context, struct error *error)
{
    struct table_reader *reader = context;
    const struct csv_table *table = &reader->table;
    CLEANUP(label_names_release) struct label_names index = {0};
    int r = index_names(table, &index, error);

    if (r < 0)
        return r;
    reader->columns = reader->dataset->table = table_columns_create(table->columns, table->names);
    reader->column_of = calloc((size_t)table->columns, sizeof *reader->column_of);
    if (!reader->columns || !reader->column_of)
        return reader_out_of_memory(table->path, error);
    for (int32_t i = 0; i < table->columns; i++)
        reader->column_of[i] = i;
    r = mark_features(reader, error);
    return r == 0 ? mark_targets(reader, error) : r;
}

/* Whether the set's columns are looked for: those to predict are not where they are not known. */
static bool is_wanted(const struct table_reader *reader, const struct table_column *column)
{
    return column->target < 0 || !reader->config->unlabelled;
}

/* Finds the columns of a table without names by their places, those to predict being there or
 * not. */
static int columns_match_places(struct table_reader *reader, struct error *error)
{
    const struct csv_table *table = &reader->table;
    const struct table_columns *columns = reader->columns;
    int32_t wanted = 0, place = 0;

    for (int32_t i = 0; i < columns->count; i++)
        wanted += is_wanted(reader, &columns->columns[i]);
    if (table->columns != columns->count && table->columns != wanted)
        return error_set(error, -EINVAL, "%s has %d columns, but the training data %d", table->path,
                         table->columns, columns->count);
    for (int32_t i = 0; i < columns->count; i++) {
        bool is_there = is_wanted(reader, &columns->columns[i]);

        if (is_there)
            reader->column_of[place] = i;
        place += is_there || table->columns == columns->count;
    }
    return 0;
}

/* Finds the columns of the training table in this one by name. */
static int columns_match_names(struct table_reader *reader, struct error *error)
{
    const struct csv_table *table = &reader->table;
    const struct table_columns *columns = reader->columns;
    CLEANUP(label_names_release) struct label_names index = {0};
    char shown[CSV_SHOWN_SIZE];
    int r = index_names(table, &index, error);

    for (int32_t i = 0; i < columns->count && r == 0; i++) {
        const struct table_column *column = &columns->columns[i];
        int32_t found =
            label_names_number(&index, column->name, strlen(column->name), table->path, 0, error);

        if (found < 0)
            return found;
        if (!is_wanted(reader, column))
            continue;
        if (found < table->columns)
            reader->column_of[found] = i;
        else if (column->target >= 0 || column->kind != TABLE_LEFT_OUT)
            r = error_set(error, -EINVAL, "%s lacks the column \"%s\" of the training data",
                          table->path, csv_cell_show(column->name, strlen(column->name), shown));
    }
    return r;
}

/* Finds the columns of the training table in this one. */
static int columns_match(void *context, struct error *error)
{
    struct table_reader *reader = context;
    const struct csv_table *table = &reader->table;
    const struct table_columns *columns = reader->columns;

    if (columns->has_names != (table->names != NULL))
        return error_set(error, -EINVAL,
                         "%s:%lld: the training data %s, but this table %s; set header if that is "
                         "not so",
                         table->path, (long long)table->line,
                         columns->has_names ? "have a row of names" : "have no row of names",
                         table->names ? "has one" : "has none");
    reader->column_of = calloc((size_t)table->columns, sizeof *reader->column_of);
    if (!reader->column_of)
        return reader_out_of_memory(table->path, error);
    memset(reader->column_of, 0xff, (size_t)table->columns * sizeof *reader->column_of); /* -1 */
    return table->names ? columns_match_names(reader, error) : columns_match_places(reader, error);
}

static bool row_is_header(void *context, const char *row, const char *end, struct csv_cursor rest)
{
    struct table_reader *reader = context;
    const struct csv_table *table = &reader->table;
    bool doubtful, header = table_row_is_header(table, row, end, rest, &doubtful);

    if (doubtful && !reader->told_of_header) {
        char shown[CSV_SHOWN_SIZE];

        reader->told_of_header = true;
        reader_warn(
            reader->config, "%s:%lld: \"%s\" is taken for %s; if that is wrong, set header to %s",
            table->path, (long long)rest.line, csv_cell_show(row, (size_t)(end - row), shown),
            header ? "the names of the columns" : "a sample", header ? "no" : "yes");
    }
    return header;
}

/* ---- cells ---- */

static int survey_cell(void *context, int32_t place, const struct table_cell *cell,
                       struct error *error)
{
    struct table_reader *reader = context;
    struct table_column *column = &reader->columns->columns[place];

    if (column->is_ignored || column->target >= 0)
        return 0;
    if (!table_cell_is_missing(reader->config, cell->text, cell->length))
        return table_column_survey(column, reader->config, cell, error);
    column->missing++;
    return 0;
}

static int survey_row(void *context, const char *row, const char *end, struct error *error)
{
    struct table_reader *reader = context;
    int r = table_row_visit(&reader->table, row, end, reader->row, reader->column_of, survey_cell,
                            reader, error);

    reader->row++;
    return r;
}

/* ---- features ---- */

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

static int target_store(struct table_reader *reader, const struct table_column *column,
                        const struct table_cell *cell, struct error *error)
{
    struct dataset *dataset = reader->dataset;
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
    if (!table_cell_number(reader->config, cell->text, cell->length, &value))
        return report_cell(column, cell,
                           "is to be predicted, but it is no number; for classes choose the loss "
                           "cross_entropy",
                           error);
    if (!isfinite((float)value))
        return report_cell(column, cell, "does not fit into a float32", error);
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
    if (table_date_parse(cell->text, cell->length,
                         config->table.day_first ? TABLE_DATE_DAY_FIRST : TABLE_DATE_MONTH_FIRST,
                         &date) &&
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
    double value;

    if (!table_cell_number(reader->config, cell->text, cell->length, &value) || !(value >= 0) ||
        !isfinite((float)value))
        return report_cell(column, cell, "is no weight of its sample: weights are numbers from 0",
                           error);
    reader->dataset->sample_weights[reader->rows] = (float)value;
    return 0;
}

static int encode_cell(void *context, int32_t place, const struct table_cell *cell,
                       struct error *error)
{
    struct table_reader *reader = context;
    struct table_column *column = &reader->columns->columns[place];
    static const char *const wanted[] = {
        [TABLE_NUMBER] = "is no number", [TABLE_DATE] = "is no date"};
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
        return report_cell(column, cell, wanted[column->kind], error);
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

static int encode_row(void *context, const char *row, const char *end, struct error *error)
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
    reader->rows += r == 0;
    reader->row++;
    return r == ROW_LEFT_OUT ? 0 : r;
}

/* ---- the whole ---- */

/* Reads the files: `begin` for the columns, `read_row` for each row. */
static int pass(struct table_reader *reader, int (*begin)(void *, struct error *),
                int (*read_row)(void *, const char *, const char *, struct error *),
                struct error *error)
{
    csv_table_release(&reader->table);
    csv_table_init(&reader->table, reader->config);
    reader->table.delimiter = reader->config->csv.delimiter;
    reader->table.context = reader;
    reader->table.row_is_header = row_is_header;
    reader->table.begin = begin;
    reader->table.read_row = read_row;
    reader->row = 0;
    return csv_table_read(&reader->table, reader->dataset, error);
}

static int columns_known(void *context, struct error *error)
{
    (void)context;
    (void)error;
    return 0;
}

static int ranges_begin(struct table_reader *reader, struct error *error)
{
    size_t count = (size_t)reader->dataset->target_width;

    reader->lowest = calloc(count, sizeof *reader->lowest);
    reader->highest = calloc(count, sizeof *reader->highest);
    if (!reader->lowest || !reader->highest)
        return reader_out_of_memory(reader->config->paths[0], error);
    for (size_t i = 0; i < count; i++) {
        reader->lowest[i] = INFINITY;
        reader->highest[i] = -INFINITY;
    }
    return 0;
}

/* Finds what the columns of the training table hold. */
static int survey(struct table_reader *reader, struct error *error)
{
    int r = pass(reader, columns_begin, survey_row, error);

    if (r == 0 && !reader->columns)
        r = error_set(error, -EINVAL, "%s has no row", reader->config->paths[0]);
    if (r == 0)
        r = table_columns_decide(reader->columns, reader->config, reader->row, error);
    reader_unmap_all(reader->dataset); /* the paths in messages lie there until then */
    if (r == 0 && reader->columns->features > FEATURES_MAX)
        return error_set(error, -EINVAL, "the columns of %s become %d features, more than %d",
                         reader->config->paths[0], reader->columns->features, FEATURES_MAX);
    return r;
}

static int name_features(struct table_reader *reader, struct error *error)
{
    const struct table_columns *columns = reader->columns;
    struct dataset *dataset = reader->dataset;
    int32_t named = 0;

    dataset->column_names = calloc((size_t)columns->features, sizeof *dataset->column_names);
    for (int32_t i = 0; dataset->column_names && i < columns->count; i++) {
        const struct table_column *column = &columns->columns[i];

        if (column->target == 0)
            dataset->target_name = strdup(column->name);
        for (int32_t f = 0; f < column->features; f++) {
            dataset->column_names[named] = table_feature_name(column, f);
            if (!dataset->column_names[named++])
                return reader_out_of_memory(reader->config->paths[0], error);
        }
    }
    return dataset->column_names && dataset->target_name
               ? 0
               : reader_out_of_memory(reader->config->paths[0], error);
}

static void warn_of_rows(const struct table_reader *reader)
{
    const char *path = reader->config->paths[0];

    if (reader->without_target)
        reader_warn(reader->config, "%s: %lld rows have no value to predict and are left out", path,
                    (long long)reader->without_target);
    if (reader->dropped)
        reader_warn(reader->config, "%s: %lld rows with missing values are left out", path,
                    (long long)reader->dropped);
    if (reader->unmarked)
        reader_warn(
            reader->config,
            "%s: %lld cells are empty in columns that are never empty in the training data; "
            "numbers and dates become the mean, and of categories none is set",
            path, (long long)reader->unmarked);
    if (reader->unknown)
        reader_warn(reader->config,
                    "%s: %lld cells hold categories that the training data lack; none of the "
                    "features of their columns is set",
                    path, (long long)reader->unknown);
}

/* Numbers to predict that float32 cannot tell apart would be learnt as one. */
static int check_targets(const struct table_reader *reader, struct error *error)
{
    for (int32_t i = 0; i < reader->columns->count; i++) {
        const struct table_column *column = &reader->columns->columns[i];
        int r = column->target < 0
                    ? 0
                    : table_column_check_range(column, reader->lowest[column->target],
                                               reader->highest[column->target], error);

        if (r < 0)
            return r;
    }
    return 0;
}

static int report_no_row(const struct table_reader *reader, struct error *error)
{
    const char *path = reader->config->paths[0];

    if (reader->row == 0)
        return error_set(error, -EINVAL, "%s has no row that can be used: it has none", path);
    return error_set(error, -EINVAL,
                     "%s has no row that can be used: of %lld, %lld have no value in a column that "
                     "is to be predicted, and %lld in a feature",
                     path, (long long)reader->row, (long long)reader->without_target,
                     (long long)reader->dropped);
}

/* Values that are to name test rows, but of which no row has any, are a mistake. */
static int check_test_part(const struct table_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;

    if (!config->table.test_values || !reader->dataset->split_keys)
        return 0;
    for (int64_t i = 0; i < reader->rows; i++)
        if (reader->dataset->split_keys[i] == DATASET_PART_TEST)
            return 0;
    return error_set(error, -EINVAL,
                     "%s has no row whose column \"%s\" is among data.split.test_values (\"%s\"); "
                     "correct them",
                     config->paths[0], config->table.split_column, config->table.test_values[0]);
}

static int finish(struct table_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    int64_t features = reader->columns->features;
    int r;

    if (reader->rows == 0)
        return report_no_row(reader, error);
    if (dataset->target == DATASET_TARGET_VALUE && !reader->reference) {
        r = check_targets(reader, error);
        if (r < 0)
            return r;
    }
    r = check_test_part(reader, error);
    if (r < 0)
        return r;
    reader_set_shape(dataset, &features, 1);
    dataset->element = DATASET_FLOAT32;
    dataset->sample_stride = (size_t)features * sizeof(float);
    dataset->memory_bytes +=
        (size_t)reader->capacity *
        (dataset->sample_stride + (size_t)dataset->target_width * sizeof(float) +
         (dataset->split_keys ? sizeof *dataset->split_keys : 0) +
         (dataset->sample_weights ? sizeof *dataset->sample_weights : 0));
    warn_of_rows(reader);
    r = reader->config->unlabelled ? 0 : name_features(reader, error);
    if (r == 0)
        r = reader_add_block(dataset, dataset->buffer, reader->rows, error);
    if (reader->config->unlabelled)
        dataset->classes = reader->reference->classes;
    else if (r == 0 && dataset->target == DATASET_TARGET_CLASS)
        r = table_labels_resolve(&reader->labels, reader->config, reader->reference, dataset,
                                 error);
    return r;
}

int table_read(const struct dataset_config *config, const struct dataset *reference,
               struct dataset *dataset, struct error *error)
{
    struct table_reader reader = {.config = config, .reference = reference, .dataset = dataset};
    bool trained = reference && reference->table;
    int r = 0;

    if (trained) {
        reader.columns = reference->table;
        dataset->target_width = reference->target_width;
    } else {
        r = survey(&reader, error);
    }
    if (r == 0)
        r = ranges_begin(&reader, error);
    if (r == 0)
        r = pass(&reader, trained ? columns_match : columns_known, encode_row, error);
    if (r == 0)
        r = finish(&reader, error);
    csv_table_release(&reader.table);
    label_names_release(&reader.labels);
    label_names_release(&reader.groups);
    free(reader.column_of);
    free(reader.lowest);
    free(reader.highest);
    if (r == 0)
        reader_unmap_all(dataset);
    return r;
}
