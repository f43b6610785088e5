/* statement.h: one SQL statement. Its parameters are bound by name, its rows are read, and it is
 * reset on every path. Only store/ uses it; other rooms get structs and JSON.
 *
 *     static const char select_state[] = "SELECT state FROM job WHERE id = :job";
 *
 *     AUTO_STATEMENT struct statement row = statement_open(connection, select_state, error);
 *
 *     statement_bind_int(&row, ":job", id);
 *     if (statement_next(&row) > 0)
 *         statement_copy_text(&row, 0, state, sizeof state);
 *     return row.result;
 *
 * The first failure stays in `result`, and its sentence in the error that the statement was opened
 * with. All later calls do nothing and return that failure, so callers check only the last result.
 * A parameter that the SQL lacks, or that was not bound, is such a failure. */
#pragma once

#include "base/cleanup.h"
#include "base/error.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct store_connection;

struct statement {
    sqlite3_stmt *handle; /* the connection's; NULL: it could not be prepared */
    struct error *error;  /* the caller's */
    int result;           /* 1: there is a row; 0: there is none; negative errno: a call failed */
    bool stepped;
    uint64_t bound; /* bit i: parameter i + 1 is bound */
};

/* Prepares the SQL once per connection. It must be a constant, because the cache's key is its
 * address. The same SQL must not be open twice at a time. */
struct statement statement_open(struct store_connection *connection, const char *sql,
                                struct error *error);
/* Opens a statement whose only parameter is :job and reads its first row. `result` says whether
 * there is one. */
struct statement statement_of_job(struct store_connection *connection, const char *sql, int64_t job,
                                  struct error *error);
/* Resets the statement. Pointers to its columns become invalid. */
void statement_close(struct statement *statement);

#define AUTO_STATEMENT CLEANUP(statement_close)

/* Texts and blobs are borrowed until the statement is closed. A NULL text or blob and a number that
 * is not finite are bound as null. */
void statement_bind_int(struct statement *statement, const char *name, int64_t value);
void statement_bind_double(struct statement *statement, const char *name, double value);
void statement_bind_text(struct statement *statement, const char *name, const char *text);
void statement_bind_blob(struct statement *statement, const char *name, const void *bytes,
                         size_t size);
void statement_bind_null(struct statement *statement, const char *name);
/* Binds null if the value is `unknown`. */
void statement_bind_known(struct statement *statement, const char *name, int64_t value,
                          int64_t unknown);

/* Reads the next row. Returns `result`: 1 with a row, 0 at the end, negative errno. */
int statement_next(struct statement *statement);
/* Runs a statement for its effect and ignores its rows. 0 or negative errno. */
int statement_run(struct statement *statement);

/* After statement_run(): how many rows it changed, and the id of the last inserted row. */
int statement_changes(const struct statement *statement);
int64_t statement_row_id(const struct statement *statement);

/* Columns of the current row, from 0. Null reads as 0, NULL or "". */
bool statement_is_null(const struct statement *row, int column);
int64_t statement_int(const struct statement *row, int column);
double statement_double(const struct statement *row, int column);
/* The text, like the blob, is valid until the next row. */
const char *statement_text(const struct statement *row, int column);
const void *statement_blob(const struct statement *row, int column, size_t *size);
/* Cuts the text at the size of the buffer. */
void statement_copy_text(const struct statement *row, int column, char *buffer, size_t size);
/* Looks the column's text up in a string table (base/string_table.h); `otherwise` if the table does
 * not have it. */
int statement_choice(const struct statement *row, int column, int (*from_string)(const char *name),
                     int otherwise);
