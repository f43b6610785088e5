/* csv_columns.c: which column of a table a name says, and what is said of names and rows that do
 * not fit; see csv_table.h. */
#include "base/text.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const comment_marks[] = {"#", "%", "//"};
enum { COMMENT_MARKS = sizeof comment_marks / sizeof *comment_marks };

static const char *mark_find(const char *row, const char *end)
{
    for (int i = 0; i < COMMENT_MARKS; i++) {
        size_t length = strlen(comment_marks[i]);

        if ((size_t)(end - row) >= length && memcmp(row, comment_marks[i], length) == 0)
            return comment_marks[i];
    }
    return NULL;
}

bool csv_comment_is_mark(const char *comment)
{
    const char *mark = mark_find(comment, comment + strlen(comment));

    return mark && strcmp(mark, comment) == 0;
}

/* Whether the row has a single text, and perhaps empty cells: a title above the table. */
static bool is_title(const struct csv_table *table, const char *row, const char *end)
{
    const char *cell;
    size_t length;
    int32_t texts = 0;

    while (texts < 2 && csv_cell_next(table, &row, end, &cell, &length))
        texts += length > 0;
    return texts == 1;
}

void csv_comment_find(struct csv_table *table, const char *row, const char *end)
{
    const char *mark = mark_find(row, end);
    size_t length = mark ? strlen(mark) : is_title(table, row, end) ? (size_t)(end - row) : 0;
    size_t kept = length < CSV_COMMENT_BYTES ? length : CSV_COMMENT_BYTES;

    while (kept < length && kept > 0 && ((unsigned char)row[kept] & 0xc0) == 0x80)
        kept--; /* whole characters */
    memcpy(table->probable_comment, row, kept);
    table->probable_comment[kept] = '\0';
}

/* What to do with a line that may be no row: comment leaves out comments and titles. */
static const char *comment_advise(const struct csv_table *table, char text[2 * CSV_SHOWN_SIZE])
{
    const char *mark = mark_find(table->row, table->row_end);
    const char *comment = mark ? mark : table->probable_comment;
    char shown[CSV_SHOWN_SIZE];

    text[0] = '\0';
    if (!*comment || strcmp(comment, table->comment) == 0)
        return text;
    csv_cell_show(comment, strlen(comment), shown);
    if (mark)
        snprintf(text, 2 * CSV_SHOWN_SIZE, "; if this line is a comment, set comment to \"%s\"",
                 shown);
    else
        snprintf(text, 2 * CSV_SHOWN_SIZE,
                 "; if the first line is none of the table, remove it, or set comment to \"%s\" if "
                 "no other line begins so",
                 shown);
    return text;
}

bool csv_has_return(const char *row, const char *end)
{
    for (const char *at = row; (at = memchr(at, '\r', (size_t)(end - at))) && at + 1 < end; at++)
        if (at[1] != '\n')
            return true;
    return false;
}

int csv_report_columns(const struct csv_table *table, int32_t count, struct error *error)
{
    char advice[2 * CSV_SHOWN_SIZE];

    if (table->has_return || csv_has_return(table->row, table->row_end))
        return error_set(error, -EINVAL,
                         "%s:%lld: some lines end in a carriage return (CR) alone, and others not; "
                         "write one end for all, such as by tr '\\r' '\\n'",
                         table->path, (long long)table->line);

    return error_set(error, -EINVAL,
                     "%s:%lld: the row has %d column%s, but the first row %d; correct the row "
                     "or the delimiter%s",
                     table->path, (long long)table->line, count, count == 1 ? "" : "s",
                     table->columns,
                     table->names && count == table->columns + 1 && table->line == 2
                         ? "; if the first column has no name, as R writes those of rows, put one "
                           "in front of the others"
                         : comment_advise(table, advice));
}

int csv_report_zero(const struct csv_table *table, int32_t column, const char *what,
                    struct error *error)
{
    return error_set(error, -EINVAL,
                     "%s:%lld, column %d: %s holds a byte of zero: remove it, or convert the file "
                     "to UTF-8 if it is UTF-16 or UTF-32",
                     table->path, (long long)table->line, column + 1, what);
}

/* The names that messages list, and that are looked for where none is written so. */
static char *const *names_listed(const struct csv_table *table)
{
    return table->unique_names ? table->unique_names : table->names;
}

/* "age", "town" and 3 more; of one column what it may mean that there are no others. */
static const char *names_show(const struct csv_table *table, char *text, size_t size)
{
    enum { SHOWN = 4 };
    char *const *listed = names_listed(table);
    char shown[CSV_SHOWN_SIZE];
    size_t used = 0;

    for (int32_t i = 0; i < table->columns && i < SHOWN && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s\"%s\"", i ? ", " : "",
                                 csv_cell_show(listed[i], strlen(listed[i]), shown));
    if (used < size && table->columns > SHOWN)
        snprintf(text + used, size - used, " and %d more", table->columns - SHOWN);
    else if (used < size && table->columns == 1)
        snprintf(text + used, size - used,
                 " alone: is the delimiter '%c' right, or do lines stand in front of the table? "
                 "Lines that begin with what the key comment says are left out",
                 table->delimiter);
    return text;
}

static int report_name(const struct csv_table *table, const char *key, const char *wanted,
                       struct error *error)
{
    const char *nearest =
        text_nearest(wanted, (const char *const *)names_listed(table), (size_t)table->columns);
    char shown[CSV_SHOWN_SIZE], names[5 * CSV_SHOWN_SIZE];

    if (nearest)
        return error_set(
            error, -EINVAL,
            "%s:%lld: the table has no column named \"%s\", which %s names; did you mean \"%s\"?",
            table->path, (long long)table->line, wanted, key,
            csv_cell_show(nearest, strlen(nearest), shown));
    return error_set(
        error, -EINVAL,
        "%s:%lld: the table has no column named \"%s\", which %s names: the row of names "
        "has %s",
        table->path, (long long)table->line, wanted, key, names_show(table, names, sizeof names));
}

/* A name that two columns have says not which. */
static int check_unique(const struct csv_table *table, const char *key, int32_t column,
                        struct error *error)
{
    for (int32_t i = column + 1; i < table->columns; i++)
        if (strcmp(table->names[i], table->names[column]) == 0)
            return error_set(error, -EINVAL,
                             "%s is \"%s\", but the columns %d and %d of %s have this name: give "
                             "the number, counted from 0",
                             key, table->names[i], column, i, table->path);
    return 0;
}

/* The first column that the header calls so; -1: none. */
static int32_t name_find(const struct csv_table *table, const char *name)
{
    for (int32_t i = 0; table->names && i < table->columns; i++)
        if (strcmp(table->names[i], name) == 0)
            return i;
    return -1;
}

/* A place that is called like another column says not which of the two is meant. */
static int check_place(const struct csv_table *table, const char *key, const char *wanted,
                       int32_t column, struct error *error)
{
    int32_t named = name_find(table, wanted);

    if (named < 0 || named == column)
        return 0;
    return error_set(error, -EINVAL,
                     "%s: the column %d is called \"%s\", which %s takes for the %s one (%d): give "
                     "the number, counted from 0",
                     table->path, named, wanted, key, wanted, column);
}

int csv_column_find(const struct csv_table *table, const char *key, const char *wanted,
                    int32_t unnamed, int32_t *column, struct error *error)
{
    char *after;
    long number;

    *column = table->columns - 1;
    if (strcmp(wanted, "last") == 0)
        return check_place(table, key, wanted, *column, error);
    *column = 0;
    if (strcmp(wanted, "first") == 0)
        return check_place(table, key, wanted, *column, error);
    *column = name_find(table, wanted);
    if (*column >= 0)
        return check_unique(table, key, *column, error);
    for (int32_t i = 0; table->unique_names && i < table->columns; i++) {
        if (strcmp(table->unique_names[i], wanted) == 0) {
            *column = i;
            return 0;
        }
    }
    number = strtol(wanted, &after, 10);
    if (after != wanted && *after == '\0') {
        if (number < 0 || number >= table->columns)
            return error_set(error, -EINVAL, "%s is %ld, but %s has the columns 0 to %d only", key,
                             number, table->path, table->columns - 1);
        *column = (int32_t)number;
        return 0;
    }
    if (table->names)
        return report_name(table, key, wanted, error);
    *column = unnamed;
    if (unnamed >= 0)
        return 0;
    return error_set(
        error, -EINVAL,
        "%s:%lld: %s is \"%s\", but this is no header row: give first, last or a number "
        "from 0, or set header to yes if the row names the columns",
        table->path, (long long)table->line, key, wanted);
}

int csv_column_find_named(const struct csv_table *table, const char *key, const char *wanted,
                          int32_t *column, struct error *error)
{
    *column = name_find(table, wanted);
    return *column >= 0 ? check_unique(table, key, *column, error)
                        : csv_column_find(table, key, wanted, -1, column, error);
}

int csv_column_find_or_last(const struct csv_table *table, const char *key, const char *wanted,
                            int32_t unnamed, int32_t *column, struct error *error)
{
    *column = table->columns - 1;
    return wanted ? csv_column_find(table, key, wanted, unnamed, column, error) : 0;
}

int csv_column_find_or_first(const struct csv_table *table, const char *key, const char *wanted,
                             int32_t unnamed, int32_t *column, struct error *error)
{
    *column = 0;
    return wanted ? csv_column_find(table, key, wanted, unnamed, column, error) : 0;
}

int csv_label_follow(const struct csv_table *table, const struct dataset *reference,
                     int32_t *column, char **name, struct error *error)
{
    const char *wanted = table->config->csv.label_column;
    bool by_place = !wanted || strcmp(wanted, "first") == 0 || strcmp(wanted, "last") == 0;
    int32_t named;

    if (!table->names)
        return 0;
    named = by_place && reference && reference->target_name &&
                    strcmp(table->names[*column], reference->target_name) != 0
                ? name_find(table, reference->target_name)
                : -1;
    if (named >= 0 && check_unique(table, "label_column", named, error) < 0)
        return error->code;
    *column = named >= 0 ? named : *column;
    *name = strdup(table->names[*column]);
    return *name ? 0 : reader_out_of_memory(table->path, error);
}

bool csv_row_has_wanted(const struct csv_table *table, const char *row, const char *end)
{
    const char *wanted[] = {table->config->sequence.column, table->config->csv.label_column};
    const char *cell;
    size_t length;

    while (csv_cell_next(table, &row, end, &cell, &length))
        for (size_t i = 0; i < 2; i++)
            if (wanted[i] && strcmp(wanted[i], "first") != 0 && strcmp(wanted[i], "last") != 0 &&
                strlen(wanted[i]) == length && memcmp(wanted[i], cell, length) == 0)
                return true;
    return false;
}
