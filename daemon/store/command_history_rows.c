/* command_history_rows.c: see command_history_rows.h. */
#include "daemon/store/command_history_rows.h"

#include <math.h>
#include <stdio.h>

#define COLUMNS \
    "device_type, runs, seconds, squares, cores, memory, device_memory, utilisation, held_none"

static void row_read(sqlite3_stmt *statement, struct command_history_row *row)
{
    snprintf(row->device_type, sizeof row->device_type, "%s", sqlite3_column_text(statement, 0));
    row->history = (struct command_history){
        .runs = sqlite3_column_int64(statement, 1),
        .seconds = sqlite3_column_double(statement, 2),
        .squares = sqlite3_column_double(statement, 3),
        .cores = sqlite3_column_double(statement, 4),
        .memory = (uint64_t)sqlite3_column_int64(statement, 5),
        .device_memory = (uint64_t)sqlite3_column_int64(statement, 6),
        .utilisation = sqlite3_column_double(statement, 7),
        .held_none = sqlite3_column_int(statement, 8),
    };
}

int command_history_read(struct store_connection *connection, uid_t uid, const char *digest,
                         struct command_history_row rows[COMMAND_HISTORY_TYPES_MAX],
                         struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, "SELECT " COLUMNS " FROM command_history WHERE uid = ? AND digest = ?", error);
    int result, count = 0;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, uid);
    store_bind_text(statement, 2, digest);
    while ((result = store_statement_next(statement, error)) > 0 &&
           count < COMMAND_HISTORY_TYPES_MAX)
        row_read(statement, &rows[count++]);
    return result < 0 ? result : count;
}

/* Whose job it is and what it runs, and what is known of that; 0: the job has no digest. */
static int row_find(struct store_connection *connection, int64_t job, const char *device_type,
                    struct command_history_row *row, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT " COLUMNS " FROM job JOIN command_history ON command_history.uid = job.uid AND "
        "digest = plan_digest AND device_type = ?2 WHERE job.id = ?1",
        error);
    int result;

    *row = (struct command_history_row){0};
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_text(statement, 2, device_type);
    result = store_statement_next(statement, error);
    if (result > 0)
        row_read(statement, row);
    return result < 0 ? result : 0;
}

/* The job's attempts so far, this one included: what a run of it takes that is not interrupted. */
static int seconds_sum(struct store_connection *connection, int64_t job, double *seconds,
                       struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, "SELECT sum(ended - started) FROM attempt WHERE job = ? AND number > 0", error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    result = store_statement_next(statement, error);
    if (result > 0 && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        *seconds = sqlite3_column_double(statement, 0);
    return result < 0 ? result : 0;
}

int command_history_store(struct store_connection *connection, int64_t job, const char *device_type,
                          const struct command_run *run, struct error *error)
{
    struct command_run whole = *run;
    struct command_history_row row;
    sqlite3_stmt *statement;
    int result = row_find(connection, job, device_type, &row, error);

    if (result == 0 && run->completed && run->resumed)
        result = seconds_sum(connection, job, &whole.seconds, error);
    if (result < 0)
        return result;
    command_history_add(&row.history, &whole);
    statement = store_statement(
        connection,
        "INSERT OR REPLACE INTO command_history (uid, digest, device_type, runs, seconds, squares, "
        "cores, memory, device_memory, utilisation, held_none) SELECT uid, plan_digest, ?2, ?3, "
        "?4, "
        "?5, ?6, ?7, ?8, ?9, ?10 FROM job WHERE id = ?1 AND plan_digest IS NOT NULL",
        error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_text(statement, 2, device_type);
    store_bind_int(statement, 3, row.history.runs);
    store_bind_double(statement, 4, row.history.seconds);
    store_bind_double(statement, 5, row.history.squares);
    store_bind_double(statement, 6, row.history.cores);
    store_bind_int(statement, 7, (int64_t)row.history.memory);
    store_bind_int(statement, 8, (int64_t)row.history.device_memory);
    store_bind_double(statement, 9, row.history.utilisation > 0 ? row.history.utilisation : NAN);
    store_bind_int(statement, 10, row.history.held_none);
    return store_statement_run(statement, error);
}
