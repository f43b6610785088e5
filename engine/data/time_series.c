/* time_series.c: tables as text (csv_table.h) whose rows are moments, in sliding windows: a sample
 * holds the `input` rows before those that it predicts. The rows are kept once; samples overlap in
 * them. */
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FIRST_CAPACITY = 1024 };

struct series_reader {
    struct csv_table table;
    const struct dataset_config *config;
    const struct dataset *reference;
    struct dataset *dataset;
    /* for each column of the table its place among the features and the targets, -1: none; owned */
    int32_t *feature_of, *target_of;
    bool columns_are_chosen;
    /* for each column that is left out because its first cell is no number: that cell; owned, NULL
     * if the features are named */
    char **left_out;
    int64_t first_line; /* of those cells, in the first file */
    const char *path;   /* of the table, as of the latest row */
    int64_t rows, capacity;
};

/* ---- columns ---- */

static int report_twice(const struct series_reader *reader, const char *key, const char *name,
                        struct error *error)
{
    return error_set(error, -EINVAL, "%s: %s has the column \"%s\" twice; leave one out",
                     reader->table.path, key, name);
}

/* Gives each of the named columns its place. */
static int columns_find(const struct series_reader *reader, const char *key,
                        const char *const *names, int count, int32_t *place_of, struct error *error)
{
    for (int i = 0; i < count; i++) {
        int32_t column;
        int r = csv_column_find_named(&reader->table, key, names[i], &column, error);

        if (r < 0)
            return r;
        if (place_of[column] >= 0)
            return report_twice(reader, key, names[i], error);
        place_of[column] = i;
    }
    return 0;
}

static int32_t count_places(const struct series_reader *reader, const int32_t *place_of)
{
    int32_t count = 0;

    for (int32_t i = 0; i < reader->table.columns; i++)
        count += place_of[i] >= 0;
    return count;
}

static int names_keep(struct series_reader *reader, struct error *error)
{
    struct dataset_series *series = &reader->dataset->series;

    if (!reader->table.names)
        return 0;
    series->names = calloc((size_t)series->features + (size_t)series->values, sizeof(char *));
    if (!series->names)
        return reader_out_of_memory(reader->table.path, error);
    for (int32_t i = 0; i < reader->table.columns; i++) {
        const char *name = reader->table.names[i];
        int32_t feature = reader->feature_of[i], target = reader->target_of[i];

        if (feature >= 0 && !(series->names[feature] = strdup(name)))
            return reader_out_of_memory(reader->table.path, error);
        if (target >= 0 && !(series->names[series->features + target] = strdup(name)))
            return reader_out_of_memory(reader->table.path, error);
    }
    return 0;
}

/* Chooses the features that the configuration does not name: all columns whose cell is a number.
 * The others must be columns of text (check_left_out()). */
static int features_choose(struct series_reader *reader, const char *row, const char *end,
                           struct error *error)
{
    const char *cell;
    size_t length;

    reader->first_line = reader->table.line;
    reader->left_out = calloc((size_t)reader->table.columns, sizeof *reader->left_out);
    if (!reader->left_out)
        return reader_out_of_memory(reader->table.path, error);
    for (int32_t i = 0, place = 0;
         csv_cell_next(&reader->table, &row, end, &cell, &length) && i < reader->table.columns;
         i++) {
        if (csv_cell_is_number(cell, length))
            reader->feature_of[i] = place++;
        else if (!(reader->left_out[i] = strndup(cell, length)))
            return reader_out_of_memory(reader->table.path, error);
    }
    return 0;
}

static void left_out_release(struct series_reader *reader)
{
    for (int32_t i = 0; reader->left_out && i < reader->table.columns; i++)
        free(reader->left_out[i]);
    free(reader->left_out);
    reader->left_out = NULL;
}

/* Whether the columns have other names than those at their places among `names`. */
static bool names_differ(const struct series_reader *reader, const int32_t *place_of,
                         char *const *names, int32_t count)
{
    bool differ = count_places(reader, place_of) != count;

    for (int32_t i = 0; i < reader->table.columns; i++)
        differ |= place_of[i] >= count ||
                  (place_of[i] >= 0 && strcmp(reader->table.names[i], names[place_of[i]]) != 0);
    return differ;
}

/* Columns that the configuration does not name are those with the names that they have in the
 * training set, if both have names. */
static int columns_follow(struct series_reader *reader, struct error *error)
{
    const struct dataset_series *trained = reader->reference ? &reader->reference->series : NULL;
    char *const *names = trained && reader->table.names ? trained->names : NULL;
    size_t bytes = (size_t)reader->table.columns * sizeof *reader->feature_of;
    int r = 0;

    if (names)
        left_out_release(reader);
    if (names && !reader->config->series.features &&
        names_differ(reader, reader->feature_of, names, trained->features)) {
        memset(reader->feature_of, 0xff, bytes); /* -1 */
        r = columns_find(reader, "features", (const char *const *)names, trained->features,
                         reader->feature_of, error);
    }
    names = names ? names + trained->features : NULL;
    if (r == 0 && names && !reader->config->series.targets &&
        names_differ(reader, reader->target_of, names, trained->values)) {
        memset(reader->target_of, 0xff, bytes);
        r = columns_find(reader, "targets", (const char *const *)names, trained->values,
                         reader->target_of, error);
    }
    return r;
}

/* The first row of numbers tells which columns hold such. */
static int columns_choose(struct series_reader *reader, const char *row, const char *end,
                          struct error *error)
{
    const struct dataset_config *config = reader->config;
    const char *const *targets = config->series.targets;
    struct dataset_series *series = &reader->dataset->series;
    int r = 0;

    if (targets)
        r = columns_find(reader, "targets", targets, config->series.target_count, reader->target_of,
                         error);
    else
        reader->target_of[reader->table.columns - 1] = 0;
    if (r == 0 && config->series.features)
        r = columns_find(reader, "features", config->series.features, config->series.feature_count,
                         reader->feature_of, error);
    if (r == 0 && !config->series.features)
        r = features_choose(reader, row, end, error);
    if (r == 0)
        r = columns_follow(reader, error);
    if (r < 0)
        return r;
    series->features = count_places(reader, reader->feature_of);
    series->values = count_places(reader, reader->target_of);
    if (series->features == 0)
        return error_set(error, -EINVAL, "%s:%lld: no column of the row is a number",
                         reader->table.path, (long long)reader->table.line);
    reader->columns_are_chosen = true;
    return names_keep(reader, error);
}

static int table_begin(void *context, struct error *error)
{
    struct series_reader *reader = context;
    size_t columns = (size_t)reader->table.columns;

    reader->feature_of = malloc(columns * sizeof *reader->feature_of);
    reader->target_of = malloc(columns * sizeof *reader->target_of);
    if (!reader->feature_of || !reader->target_of)
        return reader_out_of_memory(reader->table.path, error);
    memset(reader->feature_of, 0xff, columns * sizeof *reader->feature_of); /* -1 */
    memset(reader->target_of, 0xff, columns * sizeof *reader->target_of);
    return 0;
}

/* ---- rows ---- */

/* Counts the row as one of its file. */
static int file_count_row(struct series_reader *reader, struct error *error)
{
    struct dataset_series *series = &reader->dataset->series;
    struct dataset_series_file *files;

    if (reader->path != reader->table.path) { /* which differ even if one file is named twice */
        files = reallocarray(series->files, (size_t)series->file_count + 1, sizeof *files);
        if (!files)
            return reader_out_of_memory(reader->table.path, error);
        series->files = files;
        files[series->file_count] = (struct dataset_series_file){strdup(reader->table.path), 0};
        if (!files[series->file_count].path)
            return reader_out_of_memory(reader->table.path, error);
        series->file_count++;
        reader->path = reader->table.path;
    }
    series->files[series->file_count - 1].rows++;
    return 0;
}

static int rows_reserve(struct series_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    int64_t capacity = reader->capacity ? reader->capacity * 2 : FIRST_CAPACITY;
    bool classes = dataset->target == DATASET_TARGET_CLASS;
    void **column = classes ? (void **)&dataset->labels : (void **)&dataset->targets;
    void *buffer, *targets;

    if (reader->rows < reader->capacity)
        return 0;
    buffer = reallocarray(dataset->buffer, (size_t)capacity,
                          (size_t)dataset->series.features * sizeof(float));
    if (buffer)
        dataset->buffer = buffer;
    targets =
        reallocarray(*column, (size_t)capacity, (size_t)dataset->series.values * sizeof(float));
    if (targets)
        *column = targets;
    if (!buffer || !targets)
        return reader_out_of_memory(reader->table.path, error);
    reader->capacity = capacity;
    return 0;
}

/* "column 2 (place)" */
static char *column_format(const struct series_reader *reader, int32_t column,
                           char text[2 * CSV_SHOWN_SIZE])
{
    const char *name = reader->table.names ? reader->table.names[column] : "";
    char shown[CSV_SHOWN_SIZE];

    csv_cell_show(name, strlen(name), shown);
    snprintf(text, 2 * CSV_SHOWN_SIZE, *shown ? "column %d (%s)" : "column %d", column + 1, shown);
    return text;
}

static int report_cell(const struct series_reader *reader, int32_t column, const char *cell,
                       size_t length, struct error *error)
{
    const struct csv_table *table = &reader->table;
    char shown[CSV_SHOWN_SIZE], name[2 * CSV_SHOWN_SIZE];

    column_format(reader, column, name);
    if (length == 0)
        return error_set(error, -EINVAL,
                         "%s:%lld, %s: the cell is empty; fill it in, or leave the column out of "
                         "features and targets",
                         table->path, (long long)table->line, name);
    return error_set(error, -EINVAL,
                     "%s:%lld, %s: \"%s\" is no float32 number; correct it, or leave the column "
                     "out of features and targets",
                     table->path, (long long)table->line, name, csv_cell_show(cell, length, shown));
}

/* A column that is left out has no number anywhere: else its first cell is a mistake. */
static int check_left_out(const struct series_reader *reader, int32_t column, const char *cell,
                          size_t length, struct error *error)
{
    char shown[CSV_SHOWN_SIZE], number[CSV_SHOWN_SIZE], name[2 * CSV_SHOWN_SIZE];
    const char *first;

    if (!reader->left_out || !reader->left_out[column] || !csv_cell_is_number(cell, length))
        return 0;
    first = reader->left_out[column];
    return error_set(
        error, -EINVAL,
        "%s:%lld, %s: \"%s\" is no number, but line %lld%s%s has %s there; correct it, "
        "or name the columns in features",
        reader->dataset->series.files[0].path, (long long)reader->first_line,
        column_format(reader, column, name), csv_cell_show(first, strlen(first), shown),
        (long long)reader->table.line,
        strcmp(reader->table.path, reader->dataset->series.files[0].path) == 0 ? "" : " of ",
        strcmp(reader->table.path, reader->dataset->series.files[0].path) == 0 ? ""
                                                                               : reader->table.path,
        csv_cell_show(cell, length, number));
}

static int target_store(struct series_reader *reader, int32_t column, double value,
                        struct error *error)
{
    const struct csv_table *table = &reader->table;
    struct dataset *dataset = reader->dataset;
    int64_t place = reader->rows * dataset->series.values + reader->target_of[column];
    int32_t first = reader->config->series.first_label;
    int32_t limit = reader_class_limit(reader->config, reader->reference);

    if (dataset->target == DATASET_TARGET_VALUE) {
        dataset->targets[place] = (float)value;
        return 0;
    }
    if (value < first || value > INT32_MAX - 1 || value != floor(value))
        return error_set(error, -EINVAL,
                         "%s:%lld, column %d: %.9g is no class: labels are whole numbers from %d "
                         "(first_label); to predict numbers, choose mean squared error (model.loss "
                         "mse)",
                         table->path, (long long)table->line, column + 1, value, first);
    if (limit && value - first >= limit)
        return error_set(error, -EINVAL,
                         "%s:%lld, column %d: label %.9g is not among the %d classes from %d on; "
                         "correct the label or raise the number of classes",
                         table->path, (long long)table->line, column + 1, value, limit, first);
    dataset->labels[place] = (int32_t)value - first;
    if (dataset->labels[place] >= dataset->classes)
        dataset->classes = dataset->labels[place] + 1;
    return 0;
}

static int row_read(void *context, const char *row, const char *end, struct error *error)
{
    struct series_reader *reader = context;
    const struct csv_table *table = &reader->table;
    struct dataset *dataset = reader->dataset;
    int32_t column = 0;
    const char *at = row, *cell;
    size_t length;
    int r = 0;

    r = file_count_row(reader, error);
    if (r == 0 && !reader->columns_are_chosen)
        r = columns_choose(reader, row, end, error);
    if (r == 0)
        r = rows_reserve(reader, error);
    for (; r == 0 && csv_cell_next(table, &at, end, &cell, &length); column++) {
        int32_t feature, target;
        double value;

        if (column >= table->columns)
            continue;
        feature = reader->feature_of[column];
        target = reader->target_of[column];
        if (feature < 0 && target < 0) {
            r = check_left_out(reader, column, cell, length, error);
            continue;
        }
        if (number_parse(cell, cell + length, &value) != cell + length || length == 0 ||
            !isfinite((float)value))
            return csv_cells_count(table, row, end) != table->columns
                       ? csv_report_columns(table, csv_cells_count(table, row, end), error)
                       : report_cell(reader, column, cell, length, error);
        if (feature >= 0)
            ((float *)dataset->buffer)[reader->rows * dataset->series.features + feature] =
                (float)value;
        if (target >= 0)
            r = target_store(reader, column, value, error);
    }
    if (r == 0 && column != table->columns)
        return csv_report_columns(table, column, error);
    reader->rows++;
    return r;
}

/* ---- the whole ---- */

static void swap_rows(void *rows, int64_t count, size_t bytes)
{
    uint8_t *low = rows, *high = low + (size_t)(count - 1) * bytes;

    for (; low < high; low += bytes, high -= bytes)
        for (size_t i = 0; i < bytes; i++) {
            uint8_t swapped = low[i];

            low[i] = high[i];
            high[i] = swapped;
        }
}

/* The rows to predict, among all of the file. */
static int part_choose(struct series_reader *reader, struct error *error)
{
    const double *rows = reader->config->series.rows;
    struct dataset_series *series = &reader->dataset->series;
    bool shares = rows[1] <= 1;
    double scale = shares ? (double)reader->rows : 1;

    series->first = 0;
    series->end = reader->rows;
    if (rows[1] == 0)
        return 0;
    if (!(rows[0] >= 0 && rows[0] < rows[1]) ||
        (!shares && (rows[0] != floor(rows[0]) || rows[1] != floor(rows[1]))))
        return error_set(error, -EINVAL,
                         "rows is [%.9g, %.9g]; give the first row and the one after the last, or "
                         "two ascending shares up to 1",
                         rows[0], rows[1]);
    if (!shares && rows[1] > (double)reader->rows)
        return error_set(error, -EINVAL, "rows is [%.9g, %.9g], but %s has %lld rows; take fewer",
                         rows[0], rows[1], series->files[0].path, (long long)reader->rows);
    series->first = llround(rows[0] * scale);
    series->end = llround(rows[1] * scale);
    return 0;
}

/* Whether both paths lead to the same file. */
static bool is_same_file(const char *one, const char *other)
{
    struct stat first, second;

    return strcmp(one, other) == 0 ||
           (stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
            first.st_ino == second.st_ino);
}

/* The rows of one file, as it counts them, that a set predicts: from `first` to before `end`. */
static void file_part(const struct dataset_series *series, int32_t file, int64_t *first,
                      int64_t *end)
{
    const struct dataset_series_file *files = series->files;
    int64_t before = 0, all = 0;

    for (int32_t i = 0; i < series->file_count; all += files[i++].rows)
        before += i < file ? files[i].rows : 0;
    *first = (series->newest_first ? all - series->end : series->first) - before;
    *end = (series->newest_first ? all - series->first : series->end) - before;
    *first = *first < 0 ? 0 : *first;
    *end = *end > files[file].rows ? files[file].rows : *end;
}

const char *series_place(const struct dataset *dataset, int64_t index, int number, int64_t *row)
{
    const struct dataset_series *series = &dataset->series;
    int64_t place =
        series->file_first + index * series->stride + series->input + number / series->values;
    int64_t all = 0;
    int32_t file = 0;

    for (int32_t i = 0; i < series->file_count; i++)
        all += series->files[i].rows;
    place = series->newest_first ? all - 1 - place : place;
    for (; file < series->file_count - 1 && place >= series->files[file].rows; file++)
        place -= series->files[file].rows;
    *row = place + 1;
    return series->files[file].path;
}

/* What is tested on must not have been trained on. */
static int check_overlap(const struct series_reader *reader, struct error *error)
{
    const struct dataset_series *series = &reader->dataset->series;
    const struct dataset_series *trained = reader->reference ? &reader->reference->series : NULL;

    for (int32_t i = 0; i < series->file_count; i++) {
        for (int32_t k = 0; trained && k < trained->file_count; k++) {
            int64_t first, end, trained_first, trained_end;

            file_part(series, i, &first, &end);
            file_part(trained, k, &trained_first, &trained_end);
            if (first >= end || trained_first >= trained_end || first >= trained_end ||
                trained_first >= end ||
                !is_same_file(trained->files[k].path, series->files[i].path))
                continue;
            return error_set(
                error, -EINVAL,
                "%s: rows %lld to %lld are for the test, and rows %lld to %lld are trained on; set "
                "data.train.rows and data.test.rows, such as [0, 0.8] and [0.8, 1]%s",
                series->files[i].path, (long long)first, (long long)end - 1,
                (long long)trained_first, (long long)trained_end - 1,
                series->file_count + trained->file_count > 2 ? ", or take other files" : "");
        }
    }
    return 0;
}

static int report_short(const struct series_reader *reader, struct error *error)
{
    const struct dataset_series *series = &reader->dataset->series;

    return error_set(error, -EINVAL,
                     "%s: %lld rows, of which %lld to %lld are to be predicted, are too few for a "
                     "sample of %lld rows (input) and the %lld after them (horizon); take more "
                     "rows or a smaller window",
                     series->files[0].path, (long long)reader->rows, (long long)series->first,
                     (long long)series->end - 1, (long long)series->input,
                     (long long)series->horizon);
}

/* Moves rows first to first + count to the beginning, and gives back the memory behind them. */
static void *matrix_cut(void *matrix, int64_t first, int64_t count, size_t row_bytes)
{
    size_t bytes = (size_t)count * row_bytes;
    void *shrunk;

    memmove(matrix, (uint8_t *)matrix + (size_t)first * row_bytes, bytes);
    shrunk = realloc(matrix, bytes);
    return shrunk ? shrunk : matrix;
}

/* Keeps the rows that samples hold. Sample 0 is the first whose rows before those that it predicts
 * are there. */
static int rows_cut(struct series_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    struct dataset_series *series = &dataset->series;
    int64_t predicted = series->first > series->input ? series->first : series->input;
    int64_t last = series->end - series->horizon; /* that a sample may predict first */
    int64_t past = reader->config->series.season - series->input; /* wanted before row 0 */
    size_t feature_bytes = (size_t)series->features * sizeof(float);
    size_t value_bytes = (size_t)series->values * sizeof(float);

    if (last < predicted)
        return report_short(reader, error);
    series->file_first = predicted - series->input;
    series->rows = series->end - series->file_first;
    dataset->buffer = matrix_cut(dataset->buffer, series->file_first, series->rows, feature_bytes);
    if (dataset->targets) {
        past = past < 0 ? 0 : past;
        series->past = past > series->file_first ? series->file_first : past;
        dataset->targets = matrix_cut(dataset->targets, series->file_first - series->past,
                                      series->past + series->rows, value_bytes);
    } else {
        dataset->labels =
            matrix_cut(dataset->labels, series->file_first, series->rows, value_bytes);
    }
    dataset->memory_bytes +=
        (size_t)series->rows * (feature_bytes + value_bytes) + (size_t)series->past * value_bytes;
    dataset->element = DATASET_FLOAT32;
    dataset->sample_stride = (size_t)series->stride * feature_bytes;
    dataset->target_width = (int32_t)(series->horizon * series->values);
    dataset->target_first = (series->past + series->input) * series->values;
    dataset->target_stride = series->stride * series->values;
    reader_set_shape(dataset, (const int64_t[]){series->input, series->features}, 2);
    return reader_add_block(dataset, dataset->buffer, (last - predicted) / series->stride + 1,
                            error);
}

static int table_end(struct series_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    struct dataset_series *series = &dataset->series;
    int32_t limit = reader_class_limit(reader->config, reader->reference);
    size_t features = (size_t)series->features * sizeof(float);
    size_t values = (size_t)series->values * sizeof(float);
    int r;

    if (reader->rows == 0)
        return error_set(error, -EINVAL, "%s has no row of numbers", reader->config->paths[0]);
    if (series->horizon * series->values > INT32_MAX)
        return error_set(error, -EINVAL, "%s: %lld values are to be predicted at once; at most %d",
                         series->files[0].path, (long long)(series->horizon * series->values),
                         INT32_MAX);
    if (reader->config->series.newest_first) {
        swap_rows(dataset->buffer, reader->rows, features);
        swap_rows(dataset->targets ? (void *)dataset->targets : (void *)dataset->labels,
                  reader->rows, values);
    }
    r = part_choose(reader, error);
    if (r == 0)
        r = check_overlap(reader, error);
    if (r == 0)
        r = rows_cut(reader, error);
    if (dataset->target == DATASET_TARGET_CLASS && limit)
        dataset->classes = limit;
    return r;
}

int time_series_read(const struct dataset_config *config, const struct dataset *reference,
                     struct dataset *dataset, struct error *error)
{
    struct series_reader reader = {.config = config, .reference = reference, .dataset = dataset};
    int64_t stride = config->series.stride;
    int r;

    dataset->series = (struct dataset_series){.input = config->series.input,
                                              .horizon = config->series.horizon,
                                              .stride = stride ? stride : 1,
                                              .newest_first = config->series.newest_first};
    if (config->series.input < 1 || config->series.horizon < 1 || stride < 0)
        return error_set(
            error, -EINVAL, "input is %lld, horizon %lld and stride %lld; they must be at least 1",
            (long long)config->series.input, (long long)config->series.horizon, (long long)stride);
    csv_table_init(&reader.table, config);
    reader.table.context = &reader;
    reader.table.begin = table_begin;
    reader.table.read_row = row_read;
    r = csv_table_read(&reader.table, dataset, error);
    if (r == 0)
        r = table_end(&reader, error);
    left_out_release(&reader);
    csv_table_release(&reader.table);
    free(reader.feature_of);
    free(reader.target_of);
    if (r == 0)
        reader_unmap_all(dataset);
    return r;
}
