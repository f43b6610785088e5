/* table_rows.c: the rows of a table as they stand in the file: whether the first one names the
 * columns, and the cells of each. */
#include "base/cleanup.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <stdlib.h>
#include <string.h>

/* Whether the cells are 0, 1, 2, … behind perhaps an empty one, as pandas names columns; or years
 * that follow each other, beside perhaps words. */
static bool counts_columns(const struct csv_table *table, const char *row, const char *end)
{
    enum { YEAR_FIRST = 1800, YEAR_LAST = 2200 };
    const char *cell;
    size_t length;
    int32_t column = 0, numbers = 0;
    double value, first = 0;
    bool words = false;

    for (; csv_cell_next(table, &row, end, &cell, &length); column++) {
        if (column == 0 && length == 0)
            continue;
        if (!length || number_parse(cell, cell + length, &value) != cell + length) {
            words = true;
            continue;
        }
        first = numbers ? first : value;
        if (value != first + numbers++)
            return false;
    }
    return numbers > 1 && ((first == 0 && !words) || (first >= YEAR_FIRST && first <= YEAR_LAST));
}

/* Whether a cell of the row stands in the same column again, in the rows of READER_DROP_BYTES. A
 * row that is the same in all is no sample: it names the columns of a second file. */
static bool cell_returns(const struct csv_table *table, const char *row, const char *end,
                         struct csv_cursor rest)
{
    const char *limit =
        rest.end - rest.at > READER_DROP_BYTES ? rest.at + READER_DROP_BYTES : rest.end;
    const char *next, *next_end;

    while (rest.at < limit && csv_row_next(table, &rest, &next, &next_end)) {
        const char *at = row, *cell, *other;
        size_t length, other_length;

        if (next_end - next == end - row && memcmp(next, row, (size_t)(end - row)) == 0)
            continue;
        while (csv_cell_next(table, &at, end, &cell, &length) &&
               csv_cell_next(table, &next, next_end, &other, &other_length))
            if (length && length == other_length && memcmp(cell, other, length) == 0)
                return true;
    }
    return false;
}

/* Whether the row's word stands above a column of numbers, in the next rows: then it is a name,
 * even where others of the row return. */
static bool stands_above_numbers(const struct csv_table *table, const char *row, const char *end,
                                 struct csv_cursor rest)
{
    enum { ROWS_MAX = 64, ROWS_LEAST = 2 };
    int32_t columns = csv_cells_count(table, row, end);
    AUTO_FREE int8_t *numbers = calloc((size_t)columns + 1, sizeof *numbers); /* -1: others */
    const char *next, *next_end, *cell;
    size_t length;
    double value;

    for (int32_t i = 0; numbers && csv_cell_next(table, &row, end, &cell, &length); i++)
        numbers[i] = table_cell_is_missing(table->config, cell, length) ? -1 : 0;
    for (int k = 0; numbers && k < ROWS_MAX && csv_row_next(table, &rest, &next, &next_end); k++)
        for (int32_t i = 0; i < columns && csv_cell_next(table, &next, next_end, &cell, &length);
             i++) {
            if (numbers[i] < 0 || table_cell_is_missing(table->config, cell, length))
                continue;
            if (table_cell_number(table->config, cell, length, &value))
                numbers[i]++;
            else
                numbers[i] = -1;
        }
    for (int32_t i = 0; numbers && i < columns; i++)
        if (numbers[i] >= ROWS_LEAST)
            return true;
    return false;
}

bool table_row_is_header(const struct csv_table *table, const char *row, const char *end,
                         struct csv_cursor rest, bool *doubtful)
{
    const char *at = row, *cell;
    size_t length;
    bool words = true, header;
    double value;

    while (words && csv_cell_next(table, &at, end, &cell, &length))
        words = !csv_cell_is_number(cell, length) &&
                !table_cell_number(table->config, cell, length, &value);
    header =
        words ? !cell_returns(table, row, end, rest) || stands_above_numbers(table, row, end, rest)
              : counts_columns(table, row, end);
    *doubtful = words != header;
    return header;
}

int table_row_visit(const struct csv_table *table, const char *row, const char *end, int64_t number,
                    const int32_t *places, table_cell_function *visit, void *context,
                    struct error *error)
{
    struct table_cell cell = {.path = table->path, .line = table->line, .row = number};
    const char *at = row, *text;
    int32_t count = 0;
    int r = 0;

    for (; csv_cell_next(table, &at, end, &text, &cell.length); count++) {
        AUTO_FREE char *copy = NULL;
        bool quoted = csv_cell_is_quoted(row, text);

        if (count >= table->columns)
            return csv_report_columns(table, csv_cells_count(table, row, end), error);
        if (quoted && !csv_cell_is_whole(table, text, cell.length, end))
            return csv_report_quote(table, count, error);
        if (places && places[count] < 0)
            continue;
        if (memchr(text, '\0', cell.length))
            return csv_report_zero(table, count, "the cell", error);
        cell.text = text;
        if (quoted && memchr(text, '"', cell.length)) {
            copy = csv_cell_copy(row, text, cell.length);
            if (!copy)
                return reader_out_of_memory(table->path, error);
            cell.text = copy;
            cell.length = strlen(copy);
        }
        r = visit(context, places ? places[count] : count, &cell, error);
        if (r != 0)
            return r;
    }
    return count == table->columns ? 0 : csv_report_columns(table, count, error);
}
