/* statement.c: see statement.h. */
#include "daemon/store/statement.h"

#include "daemon/store/connection.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

struct statement statement_open(struct store_connection *connection, const char *sql,
                                struct error *error)
{
    struct statement statement = {.error = error};

    statement.result = store_connection_prepare(connection, sql, &statement.handle, error);
    if (statement.result < 0)
        statement.handle = NULL; /* if it is open already, its other user closes it */
    return statement;
}

struct statement statement_of_job(struct store_connection *connection, const char *sql, int64_t job,
                                  struct error *error)
{
    struct statement row = statement_open(connection, sql, error);

    statement_bind_int(&row, ":job", job);
    statement_next(&row);
    return row;
}

void statement_close(struct statement *statement)
{
    if (!statement->handle)
        return;
    sqlite3_reset(statement->handle);
    sqlite3_clear_bindings(statement->handle); /* borrowed texts may be freed after this */
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Returns the parameter's number, counted from 1; 0: do not bind it. */
static int parameter_find(struct statement *statement, const char *name)
{
    int index;

    if (statement->result < 0)
        return 0;
    index = sqlite3_bind_parameter_index(statement->handle, name);
    if (index < 1 || index > 64) {
        statement->result =
            error_set(statement->error, -EINVAL, "a statement of traind has no parameter %s: %s",
                      name, sqlite3_sql(statement->handle));
        return 0;
    }
    statement->bound |= UINT64_C(1) << (index - 1);
    return index;
}

static void bound_check(struct statement *statement, int code)
{
    if (code != SQLITE_OK)
        statement->result = store_error(sqlite3_db_handle(statement->handle), statement->error);
}

void statement_bind_int(struct statement *statement, const char *name, int64_t value)
{
    int index = parameter_find(statement, name);

    if (index)
        bound_check(statement, sqlite3_bind_int64(statement->handle, index, value));
}

void statement_bind_double(struct statement *statement, const char *name, double value)
{
    int index = parameter_find(statement, name);

    if (index)
        bound_check(statement, isfinite(value)
                                   ? sqlite3_bind_double(statement->handle, index, value)
                                   : sqlite3_bind_null(statement->handle, index));
}

void statement_bind_text(struct statement *statement, const char *name, const char *text)
{
    int index = parameter_find(statement, name);

    if (index) /* NULL is bound as null */
        bound_check(statement,
                    sqlite3_bind_text(statement->handle, index, text, -1, SQLITE_STATIC));
}

void statement_bind_blob(struct statement *statement, const char *name, const void *bytes,
                         size_t size)
{
    int index = parameter_find(statement, name);

    if (index)
        bound_check(statement,
                    sqlite3_bind_blob64(statement->handle, index, bytes, size, SQLITE_STATIC));
}

void statement_bind_null(struct statement *statement, const char *name)
{
    int index = parameter_find(statement, name);

    if (index)
        bound_check(statement, sqlite3_bind_null(statement->handle, index));
}

void statement_bind_known(struct statement *statement, const char *name, int64_t value,
                          int64_t unknown)
{
    if (value == unknown)
        statement_bind_null(statement, name);
    else
        statement_bind_int(statement, name, value);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Whether all parameters are bound. SQLite would silently take a forgotten one as null. */
static bool parameters_are_bound(struct statement *statement)
{
    int count = sqlite3_bind_parameter_count(statement->handle);

    for (int i = 0; i < count; i++)
        if (i >= 64 || !(statement->bound >> i & 1)) {
            statement->result = error_set(statement->error, -EINVAL,
                                          "a statement of traind lacks its parameter %s: %s",
                                          sqlite3_bind_parameter_name(statement->handle, i + 1),
                                          sqlite3_sql(statement->handle));
            return false;
        }
    return true;
}

int statement_next(struct statement *statement)
{
    if (statement->result < 0 || (!statement->stepped && !parameters_are_bound(statement)))
        return statement->result;
    if (statement->stepped && statement->result == 0)
        return 0;
    statement->stepped = true;
    switch (sqlite3_step(statement->handle)) {
    case SQLITE_ROW:
        statement->result = 1;
        break;
    case SQLITE_DONE:
        statement->result = 0;
        break;
    default:
        statement->result = store_error(sqlite3_db_handle(statement->handle), statement->error);
    }
    if (statement->result < 1)
        sqlite3_reset(statement->handle); /* the rows of what it read are free at once */
    return statement->result;
}

int statement_run(struct statement *statement)
{
    while (statement_next(statement) > 0) /* for example the rows of a pragma */
        ;
    return statement->result;
}

int statement_changes(const struct statement *statement)
{
    return statement->result < 0 ? 0 : sqlite3_changes(sqlite3_db_handle(statement->handle));
}

int64_t statement_row_id(const struct statement *statement)
{
    return statement->result < 0 ? 0
                                 : sqlite3_last_insert_rowid(sqlite3_db_handle(statement->handle));
}

/* ---- columns --------------------------------------------------------------------------------- */

bool statement_is_null(const struct statement *row, int column)
{
    return sqlite3_column_type(row->handle, column) == SQLITE_NULL;
}

int64_t statement_int(const struct statement *row, int column)
{
    return sqlite3_column_int64(row->handle, column);
}

double statement_double(const struct statement *row, int column)
{
    return sqlite3_column_double(row->handle, column);
}

const char *statement_text(const struct statement *row, int column)
{
    return (const char *)sqlite3_column_text(row->handle, column);
}

const void *statement_blob(const struct statement *row, int column, size_t *size)
{
    const void *bytes = sqlite3_column_blob(row->handle, column);

    *size = (size_t)sqlite3_column_bytes(row->handle, column);
    return bytes;
}

void statement_copy_text(const struct statement *row, int column, char *buffer, size_t size)
{
    const char *text = statement_text(row, column);

    snprintf(buffer, size, "%s", text ? text : "");
}

int statement_choice(const struct statement *row, int column, int (*from_string)(const char *name),
                     int otherwise)
{
    const char *name = statement_text(row, column);
    int value = name ? from_string(name) : -1;

    return value < 0 ? otherwise : value;
}
