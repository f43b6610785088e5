/* statement.h: one SQL statement: its parameters are bound by name, its rows are read, and it is
 * reset on every path. For store/ alone: what leaves the store are structs and JSON.
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
 * The first failure, whichever call met it, stays in `result`, and its sentence in the error that
 * the statement was opened with; every later call does nothing and answers the same. So callers
 * look at the last result alone. A parameter that the SQL lacks, or that nobody has bound, is such
 * a failure. */
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
    int result;           /* 1: there is a row; 0: there is none; negative errno: it failed */
    bool stepped;
    uint64_t bound; /* bit i: the parameter i + 1 is */
};

/* Prepares the SQL, once per connection: it must be a constant, for it is kept by address. Nobody
 * may have the same SQL open at the same time. */
struct statement statement_open(struct store_connection *connection, const char *sql,
                                struct error *error);
/* Opens one whose only parameter is :job, and reads its first row: `result` says
 * whether there is one. */
struct statement statement_of_job(struct store_connection *connection, const char *sql, int64_t job,
                                  struct error *error);
/* Resets it; what its columns point to is gone. */
void statement_close(struct statement *statement);

#define AUTO_STATEMENT CLEANUP(statement_close)

/* Texts and blobs are lent until the last row was read. NULL, and a number that is not finite, are
 * bound as null. */
void statement_bind_int(struct statement *statement, const char *name, int64_t value);
void statement_bind_double(struct statement *statement, const char *name, double value);
void statement_bind_text(struct statement *statement, const char *name, const char *text);
void statement_bind_blob(struct statement *statement, const char *name, const void *bytes,
                         size_t size);
void statement_bind_null(struct statement *statement, const char *name);
/* Null where the value is `unknown`. */
void statement_bind_known(struct statement *statement, const char *name, int64_t value,
                          int64_t unknown);

/* Goes on to the next row. `result`: 1 with a row, 0 at the end, negative errno. */
int statement_next(struct statement *statement);
/* Runs one that is there for its effect. 0 or negative errno. */
int statement_run(struct statement *statement);

/* After statement_run(): how many rows it changed, and the id of the last one that was inserted. */
int statement_changes(const struct statement *statement);
int64_t statement_row_id(const struct statement *statement);

/* Columns of the present row, from 0. Null reads as 0, NULL, "". */
bool statement_is_null(const struct statement *row, int column);
int64_t statement_int(const struct statement *row, int column);
double statement_double(const struct statement *row, int column);
/* Valid until the next row, as the blob is. */
const char *statement_text(const struct statement *row, int column);
const void *statement_blob(const struct statement *row, int column, size_t *size);
/* Cut at the size of the buffer. */
void statement_copy_text(const struct statement *row, int column, char *buffer, size_t size);
/* The value of a string table (base/string_table.h) that the column names; `otherwise` where it
 * names none. */
int statement_choice(const struct statement *row, int column, int (*from_string)(const char *name),
                     int otherwise);
