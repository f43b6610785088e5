/* csv_table.h: rows and cells of tables as text, for the readers of such files: csv.c,
 * csv_sequences.c. Several files are read as one table; comment lines and blank lines are left out;
 * cells may be quoted and padded with blanks. Internal to the folder. */
#pragma once

#include "engine/data/dataset.h"

enum { CSV_COLUMNS_MAX = 1 << 20, CSV_SHOWN_SIZE = 180 /* bytes of csv_cell_show() */ };
enum { CSV_COMMENT_BYTES = 16 /* of the key comment */ };

/* Where a file's reading is. */
struct csv_cursor {
    const char *at, *end;
    int64_t line;     /* where the latest row begins, from 1 */
    int64_t lines;    /* that were taken */
    int64_t comments; /* rows that were left out as such */
};

struct csv_table {
    const struct dataset_config *config;
    const char *comment;
    char delimiter;   /* 0: the first file tells */
    const char *path; /* of the current file; lives until dataset_close() or reader_unmap_all() */
    int64_t line;     /* of the current row, from 1 */
    const char *row, *row_end; /* the current one */
    int64_t comments;          /* left out of the files that were read */
    /* How the first row of all begins, if it may be a comment or a title; else "" */
    char probable_comment[CSV_COMMENT_BYTES + 1];
    int32_t columns; /* 0 until the first row */
    bool has_return; /* within the first row: it may be several, some of which end in CR alone */
    char **names;    /* [columns] from the header, or NULL; owned */
    /* table_names_make(): a name for each column that no other has, and whether the header gives
     * its own to others; [columns], or NULL; owned */
    char **unique_names;
    bool *name_repeats;

    void *context; /* of the functions below */
    /* Whether the file's first row names the columns, if the configuration does not say. The rows
     * after it begin at `rest`. NULL: it does if no cell of it is a number. */
    bool (*row_is_header)(void *context, const char *row, const char *end, struct csv_cursor rest);
    /* The number of columns and their names are known. */
    int (*begin)(void *context, struct error *error);
    int (*read_row)(void *context, const char *row, const char *end, struct error *error);
};

/* `config` outlives the table. Release with csv_table_release(). */
void csv_table_init(struct csv_table *table, const struct dataset_config *config);
void csv_table_release(struct csv_table *table);

/* Maps the configured files into `dataset` and calls the functions for their rows. A later file's
 * header must be that of the first. */
int csv_table_read(struct csv_table *table, struct dataset *dataset, struct error *error);

/* Whether a carriage return stands within the row that is no part of an end of line. */
bool csv_has_return(const char *row, const char *end);

/* Takes the next row, without padding at its end; whether there was one. A row is one line, or
 * several where quotes enclose the ends of lines. */
bool csv_row_next(const struct csv_table *table, struct csv_cursor *cursor, const char **row,
                  const char **end);

/* The character that parts the first row into the most cells, and the rows behind it into as many.
 * Ties go to comma, semicolon, tab and bar, in this order. */
char csv_delimiter_find(const struct csv_table *table, struct csv_cursor cursor);

/* Takes the line "sep=;", by which a file tells Excel its delimiter. A configured one wins. */
void csv_delimiter_line_take(struct csv_table *table, struct csv_cursor *cursor);

/* Rows at the beginning of a text that may go on. */
struct csv_rows {
    size_t bytes;  /* that they take, with blank lines and comments between them */
    int64_t count; /* 0 where the first row is not whole yet */
    int64_t lines;
};
/* The rows that are whole, at most `limit` of them, and no more than `bytes` but the first. The
 * text `ended`: what is there is all. */
struct csv_rows csv_rows_whole(const struct csv_table *table, const char *text, size_t size,
                               int64_t limit, size_t bytes, bool ended);

static inline bool csv_is_padding(const struct csv_table *table, char c)
{
    return c == ' ' || (c == '\t' && table->delimiter != '\t');
}

/* Whether the character parts cells; where blanks do, tabs among them do, too. */
static inline bool csv_is_delimiter(const struct csv_table *table, char c)
{
    return c == table->delimiter || (c == '\t' && table->delimiter == ' ');
}

static inline const char *csv_skip_padding(const struct csv_table *table, const char *at,
                                           const char *end)
{
    while (at < end && csv_is_padding(table, *at))
        at++;
    return at;
}

/* Behind a cell, where a blank may be the delimiter itself. */
static inline const char *csv_skip_padding_after(const struct csv_table *table, const char *at,
                                                 const char *end)
{
    return table->delimiter == ' ' ? at : csv_skip_padding(table, at, end);
}

/* Takes the next cell off the row, without padding and quotes around it; whether there was one.
 * `*at` is NULL after the last. Doubled quotes inside a quoted cell stay doubled: read its text by
 * csv_piece_next(). */
bool csv_cell_next(const struct csv_table *table, const char **at, const char *end,
                   const char **cell, size_t *length);
/* One cell of the row, by its number from 0; its length is 0 if the row has no such column. */
const char *csv_cell_find(const struct csv_table *table, const char *row, const char *end,
                          int32_t column, size_t *length);
/* Whether the cell of that row is quoted. */
static inline bool csv_cell_is_quoted(const char *row, const char *cell)
{
    return cell > row && cell[-1] == '"';
}
/* Whether a quoted cell ends with its closing quote. */
bool csv_cell_is_whole(const struct csv_table *table, const char *cell, size_t length,
                       const char *end);
/* Takes the next piece off a quoted cell: up to a quote of its text, or all. Returns its size. */
size_t csv_piece_next(const char **cell, size_t *length, const char **piece);
/* A copy of the cell's text, which the caller frees. NULL: no memory. */
char *csv_cell_copy(const char *row, const char *cell, size_t length);
int32_t csv_cells_count(const struct csv_table *table, const char *row, const char *end);
bool csv_cell_is_number(const char *cell, size_t length);
/* The cell for a message: cut, and without control characters. */
char *csv_cell_show(const char *cell, size_t length, char shown[CSV_SHOWN_SIZE]);

/* The column that `wanted` names: "first", "last", a name in the header or a number from 0. `key`
 * is the key of the specification. `unnamed` is the answer for a name if the table has no header;
 * -1: that is an error. -EINVAL with a sentence. */
int csv_column_find(const struct csv_table *table, const char *key, const char *wanted,
                    int32_t unnamed, int32_t *column, struct error *error);

/* The same where `wanted` may be NULL: then it is the last or the first column. */
int csv_column_find_or_last(const struct csv_table *table, const char *key, const char *wanted,
                            int32_t unnamed, int32_t *column, struct error *error);
int csv_column_find_or_first(const struct csv_table *table, const char *key, const char *wanted,
                             int32_t unnamed, int32_t *column, struct error *error);
/* The same for one of a list of columns, which names tell: a column may be called "last". */
int csv_column_find_named(const struct csv_table *table, const char *key, const char *wanted,
                          int32_t *column, struct error *error);

/* The label of another table than that of the training set is in the column that is called as
 * there, unless the configuration names or numbers one. `*name` is the column's, if it has one; the
 * caller owns it. */
int csv_label_follow(const struct csv_table *table, const struct dataset *reference,
                     int32_t *column, char **name, struct error *error);

/* Whether the configuration names a column, of sequences or labels, that is in this row. */
bool csv_row_has_wanted(const struct csv_table *table, const char *row, const char *end);
/* Sets table->probable_comment for the first row. */
void csv_comment_find(struct csv_table *table, const char *row, const char *end);
/* Whether comments mostly begin so: "#", "%", "//". */
bool csv_comment_is_mark(const char *comment);

/* The sentence for a quoted cell that is not whole; `column` is from 0. */
int csv_report_quote(const struct csv_table *table, int32_t column, struct error *error);
/* The sentence for a byte of zero in `what`, a cell or a name, of that column. */
int csv_report_zero(const struct csv_table *table, int32_t column, const char *what,
                    struct error *error);
/* The sentence for a row with another number of cells than the first one. */
int csv_report_columns(const struct csv_table *table, int32_t count, struct error *error);
