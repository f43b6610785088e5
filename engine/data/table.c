/* table.c: tables as people have them (csv_table.h): numbers, categories, dates and missing values.
 * The training table is read twice: a survey finds what each column holds (table_columns.h), then
 * the rows become features. Other tables are encoded by what the survey of the training table
 * found; their columns are matched by name. */
#include "engine/data/reader.h"
#include "engine/data/table_reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES_MAX = 1 << 20 };

/* ---- the survey ---- */

static int survey_cell(void *context, int32_t place, const struct table_cell *cell,
                       struct error *error)
{
    struct table_reader *reader = context;
    struct table_column *column = &reader->columns->columns[place];
    bool orders = column->is_split_key && reader->config->table.split_keys == DATASET_KEYS_ORDER;

    if ((column->is_ignored && !orders) || column->target >= 0)
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

/* ---- the whole ---- */

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

/* Names that the file does not have are needed to name such columns. */
static void warn_of_names(const struct table_reader *reader)
{
    const struct csv_table *table = &reader->table;
    char shown[CSV_SHOWN_SIZE];
    int32_t first = -1, count = 0;

    for (int32_t i = 0; table->names && i < table->columns; i++) {
        const struct table_column *column = &reader->columns->columns[i];

        if (strcmp(table->names[i], column->name) == 0 ||
            (column->target < 0 && column->kind == TABLE_LEFT_OUT))
            continue;
        first = first < 0 ? i : first;
        count++;
    }
    if (count)
        reader_warn(reader->config,
                    "%s: %d columns have no name or one of another; column %d is called \"%s\"",
                    reader->config->paths[0], count, first + 1,
                    csv_cell_show(reader->columns->columns[first].name,
                                  strlen(reader->columns->columns[first].name), shown));
}

/* Finds what the columns of the training table hold. */
static int survey(struct table_reader *reader, struct error *error)
{
    int r = pass(reader, table_columns_begin, survey_row, error);

    if (r == 0 && !reader->columns)
        r = error_set(error, -EINVAL, "%s has no row", reader->config->paths[0]);
    if (r == 0)
        r = table_columns_decide(reader->columns, reader->config, reader->row, error);
    if (r == 0)
        warn_of_names(reader);
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
    const struct dataset_config *config = reader->config;
    const char *path = config->paths[0];

    if (reader->row == 0)
        return error_set(error, config->rows ? -ENODATA : -EINVAL,
                         "%s has no row that can be used: it has none", path);
    return error_set(error, -EINVAL,
                     "%s has no row that can be used: of %lld, %lld have no value in a column that "
                     "is to be predicted, and %lld in a feature%s",
                     path, (long long)reader->row, (long long)reader->without_target,
                     (long long)reader->dropped,
                     config->csv.label_column || config->table.targets
                         ? ""
                         : "; the last column is predicted, unless label_column names another");
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
        r = pass(&reader, trained ? table_columns_match : columns_known, table_encode_row, error);
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
