/* csv_table.c: see csv_table.h. */
#include "engine/data/csv_table.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CELL_SHOWN_MAX = (CSV_SHOWN_SIZE - 20) / 4 /* bytes of a cell in a message */ };
enum { ROW_QUOTED_MAX = 1 << 20 /* bytes in which the quote of a cell is closed, if it is one */ };

void csv_table_init(struct csv_table *table, const struct dataset_config *config)
{
    *table =
        (struct csv_table){.config = config,
                           .comment = config->csv.comment_prefix ? config->csv.comment_prefix : "#",
                           .delimiter = config->csv.delimiter ? config->csv.delimiter : ','};
}

void csv_table_release(struct csv_table *table)
{
    for (int32_t i = 0; table->names && i < table->columns; i++)
        free(table->names[i]);
    for (int32_t i = 0; table->unique_names && i < table->columns; i++)
        free(table->unique_names[i]);
    free(table->names);
    free(table->unique_names);
    free(table->name_repeats);
    table->names = table->unique_names = NULL;
    table->name_repeats = NULL;
}

/* ---- cells ---- */

/* The quote that ends the text, in which a doubled one stands for a quote (RFC 4180); `end` if
 * there is none. */
static const char *closing_quote(const char *at, const char *end)
{
    while ((at = memchr(at, '"', (size_t)(end - at))) && at + 1 < end && at[1] == '"')
        at += 2;
    return at ? at : end;
}

/* The next character that parts cells; NULL: there is none. */
static const char *delimiter_next(const struct csv_table *table, const char *at, const char *end)
{
    if (table->delimiter != ' ')
        return memchr(at, table->delimiter, (size_t)(end - at));
    while (at < end && !csv_is_delimiter(table, *at))
        at++;
    return at < end ? at : NULL;
}

bool csv_cell_next(const struct csv_table *table, const char **at, const char *end,
                   const char **cell, size_t *length)
{
    const char *stop;

    if (!*at)
        return false;
    *cell = csv_skip_padding(table, *at, end);
    if (*cell < end && **cell == '"') {
        *cell += 1;
        *length = (size_t)(closing_quote(*cell, end) - *cell);
        stop = delimiter_next(table, *cell + *length, end);
    } else {
        stop = delimiter_next(table, *cell, end);
        const char *last = stop ? stop : end;
        while (last > *cell && csv_is_padding(table, last[-1]))
            last--;
        *length = (size_t)(last - *cell);
    }
    *at = stop ? stop + 1 : NULL;
    return true;
}

const char *csv_cell_find(const struct csv_table *table, const char *row, const char *end,
                          int32_t column, size_t *length)
{
    const char *cell = row;

    *length = 0;
    for (int32_t i = 0; i <= column; i++)
        if (!csv_cell_next(table, &row, end, &cell, length)) {
            *length = 0;
            break;
        }
    return cell;
}

int32_t csv_cells_count(const struct csv_table *table, const char *row, const char *end)
{
    const char *cell;
    size_t length;
    int32_t count = 0;

    while (count <= CSV_COLUMNS_MAX && csv_cell_next(table, &row, end, &cell, &length))
        count++;
    return count;
}

bool csv_cell_is_whole(const struct csv_table *table, const char *cell, size_t length,
                       const char *end)
{
    const char *after = cell + length;

    if (after == end || *after != '"')
        return false;
    after = csv_skip_padding_after(table, after + 1, end);
    return after == end || csv_is_delimiter(table, *after);
}

size_t csv_piece_next(const char **cell, size_t *length, const char **piece)
{
    const char *quote = memchr(*cell, '"', *length);
    size_t size = quote ? (size_t)(quote - *cell) + 1 : *length;

    *piece = *cell;
    *cell += size + (quote != NULL);
    *length -= size + (quote != NULL);
    return size;
}

char *csv_cell_copy(const char *row, const char *cell, size_t length)
{
    char *copy = malloc(length + 1); /* strndup() would end at a zero in the text */
    size_t used = 0;

    if (!copy)
        return NULL;
    if (csv_cell_is_quoted(row, cell)) {
        const char *piece;

        while (length) {
            size_t size = csv_piece_next(&cell, &length, &piece);

            memcpy(copy + used, piece, size);
            used += size;
        }
    } else {
        memcpy(copy, cell, length);
        used = length;
    }
    copy[used] = '\0';
    return copy;
}

bool csv_cell_is_number(const char *cell, size_t length)
{
    double value;

    return length && number_parse(cell, cell + length, &value) == cell + length;
}

char *csv_cell_show(const char *cell, size_t length, char shown[CSV_SHOWN_SIZE])
{
    char copy[CELL_SHOWN_MAX + 4] = "", *at = copy;
    size_t kept = length > CELL_SHOWN_MAX ? CELL_SHOWN_MAX : length, used = 0;

    memcpy(copy, cell, kept);
    if (kept < length)
        strcpy(copy + kept, "...");
    while (true) { /* each turn up to a byte of zero */
        text_escape_controls(at, shown + used, CSV_SHOWN_SIZE - used);
        used += strlen(shown + used);
        at += strlen(at);
        if (at >= copy + kept)
            return shown;
        used += (size_t)sprintf(shown + used, "\\x00");
        at++;
    }
}

int csv_report_quote(const struct csv_table *table, int32_t column, struct error *error)
{
    return error_set(error, -EINVAL,
                     "%s:%lld, column %d: the quote before the text has no counterpart at its end, "
                     "within %d MiB; a quote inside of a text is written twice",
                     table->path, (long long)table->line, column + 1, ROW_QUOTED_MAX >> 20);
}

/* ---- rows ---- */

/* The end of the line, or the end of the file. */
static const char *line_end(const char *at, const char *end)
{
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

    return newline ? newline : end;
}

/* The end of the row that begins at `row`: behind the line whose end is `stop`, if a quoted cell
 * goes on there. A quote that is not closed within ROW_QUOTED_MAX opens nothing; it is reported by
 * csv_cell_is_whole(), in its line. */
static const char *quoted_row_end(const struct csv_table *table, const char *row, const char *stop,
                                  const char *end)
{
    const char *limit = end - row > ROW_QUOTED_MAX ? row + ROW_QUOTED_MAX : end, *at = row, *cell;
    size_t length;

    while (at) {
        if (!csv_cell_next(table, &at, stop, &cell, &length))
            return stop;
        if (!csv_cell_is_quoted(row, cell) || cell + length < stop)
            continue;
        const char *close = closing_quote(cell, limit);
        if (close == limit)
            return stop;
        stop = line_end(close, end);
        at = delimiter_next(table, close, stop);
        at = at ? at + 1 : NULL;
    }
    return stop;
}

static int64_t count_lines(const char *row, const char *stop)
{
    int64_t count = 1;

    while ((row = memchr(row, '\n', (size_t)(stop - row)))) {
        count++;
        row++;
    }
    return count;
}

bool csv_row_next(const struct csv_table *table, struct csv_cursor *cursor, const char **row,
                  const char **end)
{
    size_t comment_length = strlen(table->comment);

    while (cursor->at < cursor->end) {
        *row = cursor->at;
        *end = line_end(cursor->at, cursor->end);
        cursor->line = ++cursor->lines;
        if (memchr(*row, '"', (size_t)(*end - *row))) {
            *end = quoted_row_end(table, *row, *end, cursor->end);
            cursor->lines += count_lines(*row, *end) - 1;
        }
        cursor->at = *end < cursor->end ? *end + 1 : cursor->end;
        if (*end > *row && (*end)[-1] == '\r')
            --*end;
        while (*end > *row && csv_is_padding(table, (*end)[-1]))
            --*end;
        if (*row == *end)
            continue;
        if (!comment_length || (size_t)(*end - *row) < comment_length ||
            memcmp(*row, table->comment, comment_length) != 0)
            return true;
        cursor->comments++;
    }
    return false;
}

static bool row_is_header(const struct csv_table *table, const char *row, const char *end,
                          struct csv_cursor rest)
{
    const char *cell;
    size_t length;

    if (table->config->csv.header != DATASET_HEADER_AUTO)
        return table->config->csv.header == DATASET_HEADER_YES;
    if (table->row_is_header)
        return table->row_is_header(table->context, row, end, rest);
    while (csv_cell_next(table, &row, end, &cell, &length))
        if (csv_cell_is_number(cell, length))
            return false;
    return true;
}

static int names_read(struct csv_table *table, const char *row, const char *end,
                      struct error *error)
{
    const char *begin = row, *cell;
    size_t length;

    table->names = calloc((size_t)table->columns, sizeof *table->names);
    if (!table->names)
        return reader_out_of_memory(table->path, error);
    for (int32_t i = 0; csv_cell_next(table, &row, end, &cell, &length); i++) {
        if (memchr(cell, '\0', length))
            return csv_report_zero(table, i, "the name of the column", error);
        table->names[i] = csv_cell_copy(begin, cell, length);
        if (!table->names[i])
            return reader_out_of_memory(table->path, error);
    }
    return 0;
}

/* The header of a later file must be that of the first. */
static int names_compare(const struct csv_table *table, const char *row, const char *end,
                         struct error *error)
{
    char shown[CSV_SHOWN_SIZE], first[CSV_SHOWN_SIZE];
    int32_t count = csv_cells_count(table, row, end);
    const char *begin = row, *cell;
    size_t length;

    if (count != table->columns)
        return csv_report_columns(table, count, error);
    if (!table->names)
        return error_set(error, -EINVAL,
                         "%s:%lld names columns, but the first file does not; files of one table "
                         "need the same form",
                         table->path, (long long)table->line);
    for (int32_t i = 0; csv_cell_next(table, &row, end, &cell, &length); i++) {
        AUTO_FREE char *name = csv_cell_copy(begin, cell, length);

        if (!name)
            return reader_out_of_memory(table->path, error);
        if (strcmp(table->names[i], name) != 0)
            return error_set(error, -EINVAL,
                             "%s:%lld, column %d is named \"%s\", but \"%s\" in the first file; "
                             "files of one table need the same columns",
                             table->path, (long long)table->line, i + 1,
                             csv_cell_show(cell, length, shown),
                             csv_cell_show(table->names[i], strlen(table->names[i]), first));
    }
    return 0;
}

/* The first row of all decides the columns. */
static int table_begin(struct csv_table *table, const char *row, const char *end, bool header,
                       struct error *error)
{
    int result = 0;

    csv_comment_find(table, row, end);
    table->columns = csv_cells_count(table, row, end);
    table->has_return = csv_has_return(row, end);
    if (table->columns > CSV_COLUMNS_MAX)
        return error_set(error, -EINVAL,
                         "%s:%lld: the first row has more than %d columns; is the delimiter '%c' "
                         "right?",
                         table->path, (long long)table->line, CSV_COLUMNS_MAX, table->delimiter);
    if (header)
        result = names_read(table, row, end, error);
    return result == 0 ? table->begin(table->context, error) : result;
}

/* Whether a quoted cell of the row may go on behind it. */
static bool row_is_open(const struct csv_table *table, const char *row, const char *end)
{
    const char *at = row, *cell;
    size_t length;

    if (!memchr(row, '"', (size_t)(end - row)))
        return false;
    while (csv_cell_next(table, &at, end, &cell, &length))
        if (csv_cell_is_quoted(row, cell) && cell + length == end)
            return true;
    return false;
}

struct csv_rows csv_rows_whole(const struct csv_table *table, const char *text, size_t size,
                               int64_t limit, size_t bytes, bool ended)
{
    struct csv_cursor cursor = {.at = text, .end = text + size};
    struct csv_rows rows = {0};
    const char *row, *end;

    while (rows.count < limit && csv_row_next(table, &cursor, &row, &end)) {
        bool unfinished = cursor.at == cursor.end && text[size - 1] != '\n';

        if (!ended &&
            (unfinished || (cursor.end - row < ROW_QUOTED_MAX && row_is_open(table, row, end))))
            return rows;
        if (rows.count && (size_t)(cursor.at - text) > bytes)
            return rows;
        rows = (struct csv_rows){(size_t)(cursor.at - text), rows.count + 1, cursor.lines};
    }
    if (rows.count == 0 && size && (ended || text[size - 1] == '\n')) /* nothing but comments */
        return (struct csv_rows){size, 0, cursor.lines};
    return rows;
}

char csv_delimiter_find(const struct csv_table *table, struct csv_cursor cursor)
{
    static const char candidates[] = ",;\t|";
    enum { ROWS_MAX = 16 };
    int32_t most = 1;
    char best = ',';

    for (const char *candidate = candidates; *candidate; candidate++) {
        struct csv_table shape = *table;
        struct csv_cursor at = cursor;
        const char *row, *end;
        int32_t cells = 0, rows = 0;
        bool agree = true;

        shape.delimiter = *candidate;
        while (agree && rows++ < ROWS_MAX && csv_row_next(&shape, &at, &row, &end)) {
            int32_t count = csv_cells_count(&shape, row, end);

            agree = !cells || count == cells;
            cells = count;
        }
        if (agree && cells > most) {
            most = cells;
            best = *candidate;
        }
    }
    return best;
}

void csv_delimiter_line_take(struct csv_table *table, struct csv_cursor *cursor)
{
    static const char begin[] = "sep=";
    const char *end = line_end(cursor->at, cursor->end);
    size_t length = (size_t)(end - cursor->at), fixed = sizeof begin - 1;

    length -= length && end[-1] == '\r';
    if (length != fixed + 1 || strncasecmp(cursor->at, begin, fixed) != 0)
        return;
    if (!table->config->csv.delimiter)
        table->delimiter = cursor->at[fixed];
    cursor->at = end < cursor->end ? end + 1 : end;
    cursor->lines++;
}

/* Refuses a row that is the row of names again: that of a second file, joined to the first. */
static int names_refuse(const struct csv_table *table, const char *names, const char *row,
                        const char *end, struct error *error)
{
    size_t length = (size_t)(end - row);

    if (!names || strlen(names) != length || memcmp(row, names, length) != 0)
        return 0;
    return error_set(error, -EINVAL,
                     "%s:%lld: the row of names returns here; remove it, or set header to no if "
                     "the first row is a sample",
                     table->path, (long long)table->line);
}

static int file_read(struct csv_table *table, const struct dataset_mapping *mapping,
                     struct error *error)
{
    struct csv_cursor cursor = {.end = (const char *)mapping->address + mapping->bytes};
    const uint8_t *kept = mapping->address;
    AUTO_FREE char *names = NULL; /* a copy: pages that were read are dropped */
    const char *row, *end;
    bool first = true;
    int result = 0;

    table->path = mapping->path;
    cursor.at = reader_text_begin(mapping, error);
    if (!cursor.at)
        return -EINVAL;
    csv_delimiter_line_take(table, &cursor);
    if (!table->delimiter)
        table->delimiter = csv_delimiter_find(table, cursor);
    while (result == 0 && csv_row_next(table, &cursor, &row, &end)) {
        bool header = first && row_is_header(table, row, end, cursor);

        table->line = cursor.line + (header ? 0 : table->config->rows_line);
        table->row = row;
        table->row_end = end;
        first = false;
        if (!table->columns)
            result = table_begin(table, row, end, header, error);
        else if (header)
            result = names_compare(table, row, end, error);
        if (header)
            names = strndup(row, (size_t)(end - row));
        else if (result == 0)
            result = names_refuse(table, names, row, end, error);
        if (result == 0 && !header)
            result = table->read_row(table->context, row, end, error);
        if (!table->config->rows && cursor.at - (const char *)kept > READER_DROP_BYTES)
            kept = reader_drop_pages(kept, (const uint8_t *)cursor.at);
    }
    table->comments += cursor.comments;
    return result;
}

int csv_table_read(struct csv_table *table, struct dataset *dataset, struct error *error)
{
    const struct dataset_config *config = table->config;
    int result = 0;

    if (config->rows) {
        struct dataset_mapping rows = {.address =
                                           (void *)(uintptr_t)config->rows, /* it is only read */
                                       .bytes = config->row_bytes,
                                       .path = (char *)(uintptr_t)config->paths[0]};

        return file_read(table, &rows, error);
    }
    for (int i = 0; i < config->path_count && result == 0; i++) {
        const struct dataset_mapping *mapping;

        result = reader_map(dataset, config->directory, config->paths[i], &mapping, error);
        if (result == 0)
            result = reader_decode_text(dataset, &mapping, error);
        if (result == 0)
            result = file_read(table, mapping, error);
    }
    return result;
}
