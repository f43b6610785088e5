/* csv.c: tables of numbers as text. Several files are read as one table; comment lines and blank
 * lines are left out; cells may be quoted and padded with blanks. One column is the target, the
 * others are the sample. Every fault names file, line and column (both from 1). */
#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS_MAX = 1 << 20,
    CELL_SHOWN_MAX = 40, /* bytes of a cell in a message */
    CELL_SHOWN_SIZE = 4 * CELL_SHOWN_MAX + 20,
    FIRST_CAPACITY = 256
};

struct csv_reader {
    const struct dataset_config *config;
    const struct dataset *reference;
    struct dataset *dataset;
    const char *comment;
    char delimiter;
    double divide_by;
    int32_t class_limit, highest; /* 0: labels decide; highest label met */

    const char *path; /* of the current file */
    int64_t line;
    int32_t columns;      /* 0 until the first row */
    int32_t label_column; /* from 0 */
    char **names;         /* [columns] from the header, or NULL; owned */
    int64_t rows, capacity;
};

/* ---- cells ---- */

static bool is_padding(const struct csv_reader *reader, char c)
{
    return c == ' ' || (c == '\t' && reader->delimiter != '\t');
}

static const char *skip_padding(const struct csv_reader *reader, const char *at, const char *end)
{
    while (at < end && is_padding(reader, *at))
        at++;
    return at;
}

/* Behind a cell a blank may be the delimiter itself. */
static const char *skip_padding_after(const struct csv_reader *reader, const char *at,
                                      const char *end)
{
    return reader->delimiter == ' ' ? at : skip_padding(reader, at, end);
}

/* Takes the next cell off the row, without padding and quotes; whether there was one. `*at` is NULL
 * after the last. */
static bool cell_next(const struct csv_reader *reader, const char **at, const char *end,
                      const char **cell, size_t *length)
{
    const char *stop;

    if (!*at)
        return false;
    *cell = skip_padding(reader, *at, end);
    if (*cell < end && **cell == '"') {
        *cell += 1;
        const char *quote = memchr(*cell, '"', (size_t)(end - *cell));
        *length = (size_t)((quote ? quote : end) - *cell);
        stop = memchr(*cell + *length, reader->delimiter, (size_t)(end - *cell) - *length);
    } else {
        stop = memchr(*cell, reader->delimiter, (size_t)(end - *cell));
        const char *last = stop ? stop : end;
        while (last > *cell && is_padding(reader, last[-1]))
            last--;
        *length = (size_t)(last - *cell);
    }
    *at = stop ? stop + 1 : NULL;
    return true;
}

static int32_t cells_count(const struct csv_reader *reader, const char *row, const char *end)
{
    const char *cell;
    size_t length;
    int32_t count = 0;

    while (count <= COLUMNS_MAX && cell_next(reader, &row, end, &cell, &length))
        count++;
    return count;
}

static bool cell_is_number(const char *cell, size_t length)
{
    double value;

    return length && number_parse(cell, cell + length, &value) == cell + length;
}

/* ---- faults ---- */

static char *cell_show(const char *cell, size_t length, char shown[CELL_SHOWN_SIZE])
{
    char copy[CELL_SHOWN_MAX + 4];
    bool cut = length > CELL_SHOWN_MAX;

    snprintf(copy, sizeof copy, "%.*s%s", cut ? CELL_SHOWN_MAX : (int)length, cell,
             cut ? "..." : "");
    return text_escape_controls(copy, shown, CELL_SHOWN_SIZE);
}

/* A cell that holds words: what helps depends on whether it is the label. */
static int report_word(const struct csv_reader *reader, int32_t column, const char *cell,
                       size_t length, struct error *error)
{
    bool label = column == reader->label_column;
    bool classes = reader->dataset->target == DATASET_TARGET_CLASS;
    const char *what = "", *remedy;
    char shown[CELL_SHOWN_SIZE], own[CELL_SHOWN_SIZE + 128];

    if (label && classes) {
        what = "the class ";
        remedy = "number the classes from 0 and write these numbers";
    } else if (label) {
        what = "the value to predict ";
        remedy = "correct it, or, for classes, choose cross entropy and number them from 0";
    } else {
        const char *name = reader->names ? reader->names[column] : "";

        snprintf(shown, sizeof shown, "%d", column);
        snprintf(own, sizeof own,
                 "write a number or leave the column out; if it holds the classes, number them "
                 "from 0 and set label_column to \"%s\"",
                 *name ? cell_show(name, strlen(name), shown) : shown);
        remedy = own;
    }
    return error_set(
        error, -EINVAL, "%s:%lld, column %d: %s\"%s\" is not a number; %s%s", reader->path,
        (long long)reader->line, column + 1, what, cell_show(cell, length, shown), remedy,
        reader->rows == 0 && !reader->names ? "; if this row names the columns, set header to yes"
                                            : "");
}

/* Says why the row could not be read: a wrong number of cells or the first that is no number. */
static int report_row(const struct csv_reader *reader, const char *row, const char *end,
                      struct error *error)
{
    const char *cell;
    size_t length;
    int32_t count = cells_count(reader, row, end);

    if (count != reader->columns)
        return error_set(error, -EINVAL,
                         "%s:%lld: the row has %d column%s, but the first row %d; correct the row "
                         "or the delimiter",
                         reader->path, (long long)reader->line, count, count == 1 ? "" : "s",
                         reader->columns);
    for (int32_t column = 1; cell_next(reader, &row, end, &cell, &length); column++) {
        if (length == 0)
            return error_set(error, -EINVAL,
                             "%s:%lld, column %d: the cell is empty; fill it in or remove the row",
                             reader->path, (long long)reader->line, column);
        if (!cell_is_number(cell, length))
            return report_word(reader, column - 1, cell, length, error);
    }
    return error_set(error, -EINVAL, "%s:%lld: the row cannot be read; check its quotes",
                     reader->path, (long long)reader->line);
}

static int report_value(const struct csv_reader *reader, int32_t column, double value,
                        const char *what, struct error *error)
{
    return error_set(error, -EINVAL, "%s:%lld, column %d: %.9g %s", reader->path,
                     (long long)reader->line, column + 1, value, what);
}

/* ---- the first rows ---- */

static bool row_is_header(const struct csv_reader *reader, const char *row, const char *end)
{
    const char *cell;
    size_t length;

    if (reader->config->csv.header != DATASET_HEADER_AUTO)
        return reader->config->csv.header == DATASET_HEADER_YES;
    while (cell_next(reader, &row, end, &cell, &length))
        if (cell_is_number(cell, length))
            return false;
    return true;
}

static int names_read(struct csv_reader *reader, const char *row, const char *end,
                      struct error *error)
{
    const char *cell;
    size_t length;

    reader->names = calloc((size_t)reader->columns, sizeof *reader->names);
    if (!reader->names)
        return reader_out_of_memory(reader->path, error);
    for (int32_t i = 0; cell_next(reader, &row, end, &cell, &length); i++) {
        reader->names[i] = strndup(cell, length);
        if (!reader->names[i])
            return reader_out_of_memory(reader->path, error);
    }
    return 0;
}

/* The header of a later file must be that of the first. */
static int names_compare(const struct csv_reader *reader, const char *row, const char *end,
                         struct error *error)
{
    char shown[CELL_SHOWN_SIZE], first[CELL_SHOWN_SIZE];
    const char *cell, *start = row;
    size_t length;

    if (!reader->names || cells_count(reader, row, end) != reader->columns)
        return report_row(reader, start, end, error);
    for (int32_t i = 0; cell_next(reader, &row, end, &cell, &length); i++)
        if (strlen(reader->names[i]) != length || memcmp(reader->names[i], cell, length) != 0)
            return error_set(error, -EINVAL,
                             "%s:%lld, column %d is named \"%s\", but \"%s\" in the first file; "
                             "files of one table need the same columns",
                             reader->path, (long long)reader->line, i + 1,
                             cell_show(cell, length, shown),
                             cell_show(reader->names[i], strlen(reader->names[i]), first));
    return 0;
}

static int report_label_name(const struct csv_reader *reader, const char *wanted,
                             struct error *error)
{
    const char *nearest =
        text_nearest(wanted, (const char *const *)reader->names, (size_t)reader->columns);
    char shown[CELL_SHOWN_SIZE];

    return error_set(error, -EINVAL, "%s has no column named \"%s\"%s%s%s", reader->path, wanted,
                     nearest ? "; did you mean \""
                             : ": label_column is first, last, a number from "
                               "0 or a name in the header",
                     nearest ? cell_show(nearest, strlen(nearest), shown) : "",
                     nearest ? "\"?" : "");
}

static int label_column_choose(struct csv_reader *reader, struct error *error)
{
    const char *wanted = reader->config->csv.label_column;
    char *after;

    reader->label_column = reader->columns - 1;
    if (!wanted || strcmp(wanted, "last") == 0)
        return 0;
    reader->label_column = 0;
    if (strcmp(wanted, "first") == 0)
        return 0;
    for (int32_t i = 0; reader->names && i < reader->columns; i++) {
        if (strcmp(reader->names[i], wanted) == 0) {
            reader->label_column = i;
            return 0;
        }
    }
    long number = strtol(wanted, &after, 10);
    if (after != wanted && *after == '\0') {
        if (number < 0 || number >= reader->columns)
            return error_set(error, -EINVAL,
                             "label_column is %ld, but %s has the columns 0 to %d only", number,
                             reader->path, reader->columns - 1);
        reader->label_column = (int32_t)number;
        return 0;
    }
    if (reader->names)
        return report_label_name(reader, wanted, error);
    if (reader->reference) {
        reader->label_column = reader->reference->label_column;
        return 0;
    }
    return error_set(error, -EINVAL,
                     "label_column is \"%s\", but %s has no header row; give first, last or a "
                     "number from 0",
                     wanted, reader->path);
}

static int shape_choose(struct csv_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;
    int64_t width = reader->columns - 1;

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
            reader->path, (long long)width,
            reader_format_shape(config->shape, config->rank, shape, sizeof shape),
            (long long)reader->dataset->sample_elements);
    }
    return 0;
}

/* The first row of all decides the columns. */
static int table_begin(struct csv_reader *reader, const char *row, const char *end, bool header,
                       struct error *error)
{
    int result = 0;

    reader->columns = cells_count(reader, row, end);
    if (reader->columns < 2 || reader->columns > COLUMNS_MAX)
        return error_set(error, -EINVAL,
                         "%s:%lld: the first row has %s; a label and at least one number are "
                         "needed: is the delimiter '%c' right?",
                         reader->path, (long long)reader->line,
                         reader->columns < 2 ? "one column only" : "too many columns",
                         reader->delimiter);
    if (header)
        result = names_read(reader, row, end, error);
    if (result == 0)
        result = label_column_choose(reader, error);
    if (result == 0)
        result = shape_choose(reader, error);
    return result;
}

/* ---- rows ---- */

static int table_grow(struct csv_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    int64_t capacity = reader->capacity ? reader->capacity * 2 : FIRST_CAPACITY;
    size_t row_bytes = (size_t)(reader->columns - 1) * sizeof(float);
    bool classes = dataset->target == DATASET_TARGET_CLASS;
    void **column = classes ? (void **)&dataset->labels : (void **)&dataset->targets;

    void *buffer = reallocarray(dataset->buffer, (size_t)capacity, row_bytes);
    if (buffer)
        dataset->buffer = buffer;
    void *targets = reallocarray(*column, (size_t)capacity, sizeof(float));
    if (targets)
        *column = targets;
    if (!buffer || !targets)
        return reader_out_of_memory(reader->path, error);
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
                         reader->path, (long long)reader->line, reader->label_column + 1, label,
                         reader->class_limit);
    if (label > reader->highest)
        reader->highest = label;
    dataset->labels[reader->rows] = label;
    return 0;
}

static int row_read(struct csv_reader *reader, const char *row, const char *end,
                    struct error *error)
{
    float *features;
    const char *at = row;
    double value;

    if (reader->rows == reader->capacity && table_grow(reader, error) < 0)
        return -ENOMEM;
    features = (float *)reader->dataset->buffer + reader->rows * (reader->columns - 1);
    for (int32_t column = 0; column < reader->columns; column++) {
        bool last = column == reader->columns - 1;

        at = skip_padding(reader, at, end);
        bool quoted = at < end && *at == '"';
        at = number_parse(at + quoted, end, &value);
        if (!at || (quoted && (at == end || *at++ != '"')))
            return report_row(reader, row, end, error);
        at = skip_padding_after(reader, at, end);
        if (last ? at != end : at == end || *at++ != reader->delimiter)
            return report_row(reader, row, end, error);
        if (column == reader->label_column) {
            int result = label_store(reader, value, error);
            if (result < 0)
                return result;
        } else {
            *features = (float)(value / reader->divide_by);
            if (!isfinite(*features++))
                return report_value(reader, column, value, "does not fit into a float32", error);
        }
    }
    reader->rows++;
    return 0;
}

static int file_read_rows(struct csv_reader *reader, const struct dataset_mapping *mapping,
                          struct error *error)
{
    const char *at = mapping->address, *end = at + mapping->bytes;
    size_t comment_length = strlen(reader->comment);
    bool first = true;
    int result = 0;

    reader->path = mapping->path;
    reader->line = 0;
    if (mapping->bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3; /* byte order mark */
    while (at < end && result == 0) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *row = at, *row_end = newline ? newline : end;

        at = newline ? newline + 1 : end;
        reader->line++;
        if (row_end > row && row_end[-1] == '\r')
            row_end--;
        while (row_end > row && is_padding(reader, row_end[-1]))
            row_end--;
        if (row == row_end || (comment_length && (size_t)(row_end - row) >= comment_length &&
                               memcmp(row, reader->comment, comment_length) == 0))
            continue;
        bool header = first && row_is_header(reader, row, row_end);
        first = false;
        if (!reader->columns)
            result = table_begin(reader, row, row_end, header, error);
        else if (header)
            result = names_compare(reader, row, row_end, error);
        if (result == 0 && !header)
            result = row_read(reader, row, row_end, error);
    }
    return result;
}

/* ---- the whole ---- */

/* Feature names in the order of the sample's elements; takes them over from the reader. */
static int names_hand_over(struct csv_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;

    if (!reader->names)
        return 0;
    dataset->column_names = calloc((size_t)reader->columns, sizeof *dataset->column_names);
    if (!dataset->column_names)
        return reader_out_of_memory(reader->path, error);
    for (int32_t i = 0, feature = 0; i < reader->columns; i++) {
        if (i == reader->label_column)
            dataset->target_name = TAKE_POINTER(reader->names[i]);
        else
            dataset->column_names[feature++] = TAKE_POINTER(reader->names[i]);
    }
    return 0;
}

static int check_names(const struct csv_reader *reader, struct error *error)
{
    char **own = reader->dataset->column_names;
    char **other = reader->reference ? reader->reference->column_names : NULL;
    char shown[CELL_SHOWN_SIZE], trained[CELL_SHOWN_SIZE];

    if (!own || !other || reader->dataset->sample_elements != reader->reference->sample_elements)
        return 0;
    for (int64_t i = 0; i < reader->dataset->sample_elements; i++)
        if (strcmp(own[i], other[i]) != 0)
            return error_set(error, -EINVAL,
                             "%s has the column \"%s\" where the training data have \"%s\"; both "
                             "need the same columns in the same order",
                             reader->path, cell_show(own[i], strlen(own[i]), shown),
                             cell_show(other[i], strlen(other[i]), trained));
    return 0;
}

static int table_end(struct csv_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    size_t row_bytes = (size_t)dataset->sample_elements * sizeof(float);
    int result;

    if (reader->rows == 0)
        return error_set(error, -EINVAL, "%s has no row of numbers", reader->path);
    void *shrunk = reallocarray(dataset->buffer, (size_t)reader->rows, row_bytes);
    if (shrunk)
        dataset->buffer = shrunk;
    dataset->element = DATASET_FLOAT32;
    dataset->sample_stride = row_bytes;
    dataset->label_column = reader->label_column;
    if (dataset->target == DATASET_TARGET_CLASS)
        dataset->classes = reader->class_limit ? reader->class_limit : reader->highest + 1;
    dataset->memory_bytes += (size_t)reader->rows * (row_bytes + sizeof(float));
    result = names_hand_over(reader, error);
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
                                .comment =
                                    config->csv.comment_prefix ? config->csv.comment_prefix : "#",
                                .delimiter = config->csv.delimiter ? config->csv.delimiter : ',',
                                .divide_by = config->csv.divide_by != 0 ? config->csv.divide_by : 1,
                                .class_limit = reader_class_limit(config, reference)};
    int result = 0;

    for (int i = 0; i < config->path_count && result == 0; i++) {
        const struct dataset_mapping *mapping;

        result = reader_map(dataset, config->directory, config->paths[i], &mapping, error);
        if (result == 0)
            result = file_read_rows(&reader, mapping, error);
    }
    if (result == 0)
        result = table_end(&reader, error);
    for (int32_t i = 0; reader.names && i < reader.columns; i++)
        free(reader.names[i]);
    free(reader.names);
    if (result == 0)
        reader_unmap_all(dataset);
    return result;
}
