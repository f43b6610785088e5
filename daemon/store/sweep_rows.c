/* sweep_rows.c: see sweep_rows.h. */
#include "daemon/store/sweep_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/job_rows.h"
#include "daemon/types/job_types.h"
#include "daemon/work/sweep_points.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- points ------------------------------------------------------------------------------------
 */

static void point_set_state(struct json_object *job, sqlite3_stmt *row, int64_t id)
{
    bool cancelled = sqlite3_column_type(row, 7) != SQLITE_NULL;
    int64_t first = sqlite3_column_int64(row, 0);
    char reason[160];

    snprintf(reason, sizeof reason,
             "point %" PRId64 " of %" PRId64 " of the sweep %" PRId64
             "; those before it come first",
             id - first, (int64_t)sqlite3_column_int64(row, 1), first);
    json_set_string(job, "state", job_state_to_string(cancelled ? JOB_CANCELLED : JOB_QUEUED));
    json_set_string(job, "reason", cancelled ? "its sweep was cancelled" : reason);
    json_set_string(job, "wait_reason", cancelled ? NULL : wait_reason_to_string(WAIT_SWEEP));
    row_set_double(job, "ended", row, 7);
}

int sweep_point_find(struct store_connection *connection, int64_t id, struct json_object **job,
                     struct error *error)
{
    static const char *const absent[] = {"device",   "started", "exit_status",
                                         "progress", "best",    "ran"};
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT first_job, points, uid, user, name, kind, priority, cancelled, submitted, "
        "json_extract(" STORE_JSON("spec") ", '$.group') " SWEEP_OF_POINT_TO_COME,
        error);
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : error_set(error, -ESRCH, "there is no job %" PRId64, id);
    *job = json_object_new_object();
    json_set_int(*job, "id", id);
    row_set_int(*job, "sweep", statement, 0);
    row_set_int(*job, "uid", statement, 2);
    row_set_text(*job, "user", statement, 3);
    row_set_text(*job, "name", statement, 4);
    row_set_text(*job, "kind", statement, 5);
    row_set_int(*job, "priority", statement, 6);
    row_set_double(*job, "submitted", statement, 8);
    row_set_text(*job, "group", statement, 9);
    json_set_int(*job, "attempt", 0);
    json_set_bool(*job, "held", false);
    json_set(*job, "metrics", json_object_new_object());
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        json_set(*job, absent[i], NULL);
    point_set_state(*job, statement, id);
    return 0;
}

int sweep_point_read_spec(struct store_connection *connection, int64_t id,
                          struct json_object **spec, struct error *error)
{
    sqlite3_stmt *statement =
        store_statement(connection, "SELECT first_job, spec, axes " SWEEP_OF_POINT_TO_COME, error);
    JSON_AUTO struct json_object *base = NULL, *axes = NULL;
    struct sweep_points *points = NULL;
    int64_t first;
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : error_set(error, -ESRCH, "there is no job %" PRId64, id);
    first = sqlite3_column_int64(statement, 0);
    base = row_read_object(statement, 1);
    axes = row_read_object(statement, 2);
    if (!base || !axes)
        return error_set(error, -EUCLEAN, "the row of sweep %" PRId64 " is damaged", first);
    result = sweep_points_read(axes, INT64_MAX, &points, NULL, error);
    if (result == 0)
        result = sweep_point_spec(points, id - first, base, spec, error);
    sweep_points_free(points);
    return result;
}

/* ---- sweeps ------------------------------------------------------------------------------------
 */

#define SWEEP_COLUMNS "first_job, name, user, uid, points, expanded, submitted, cancelled, removed"

static struct json_object *sweep_make(sqlite3_stmt *row)
{
    struct json_object *sweep = json_object_new_object();

    row_set_int(sweep, "id", row, 0);
    row_set_text(sweep, "name", row, 1);
    row_set_text(sweep, "user", row, 2);
    row_set_int(sweep, "uid", row, 3);
    row_set_int(sweep, "points", row, 4);
    row_set_int(sweep, "expanded", row, 5);
    row_set_double(sweep, "submitted", row, 6);
    row_set_double(sweep, "cancelled", row, 7);
    row_set_int(sweep, "removed", row, 8);
    json_set(sweep, "states", NULL);
    return sweep;
}

/* What is no row and was not removed counts as queued, or as cancelled. */
static int states_count(struct store_connection *connection, struct json_object *sweep,
                        struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, "SELECT state, count(*) FROM job WHERE sweep = ? GROUP BY state", error);
    struct json_object *states = json_object_new_object();
    int64_t left = json_get_int(sweep, "points", 0) - json_get_int(sweep, "removed", 0);
    const char *rest = json_get(sweep, "cancelled") ? "cancelled" : "queued";
    int result;

    json_set(sweep, "states", states);
    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, json_get_int(sweep, "id", 0));
    while ((result = store_statement_next(statement, error)) > 0) {
        row_set_int(states, (const char *)sqlite3_column_text(statement, 0), statement, 1);
        left -= sqlite3_column_int64(statement, 1);
    }
    if (left > 0)
        json_set_int(states, rest, json_get_int(states, rest, 0) + left);
    return result;
}

int sweep_row_find(struct store_connection *connection, int64_t first_job,
                   struct json_object **sweep, struct json_object **spec, struct json_object **axes,
                   struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, "SELECT " SWEEP_COLUMNS ", spec, axes FROM sweep WHERE first_job = ?", error);
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, first_job);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result
                          : error_set(error, -ESRCH,
                                      "there is no sweep %" PRId64
                                      "; a sweep is named by the number of its first job",
                                      first_job);
    *sweep = sweep_make(statement);
    if (spec)
        *spec = row_read_object(statement, 9);
    if (axes)
        *axes = row_read_object(statement, 10);
    return states_count(connection, *sweep, error);
}

int sweep_rows_list(struct store_connection *connection, int64_t before, int64_t limit,
                    struct json_object *sweeps, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT " SWEEP_COLUMNS " FROM sweep WHERE first_job < ? ORDER BY first_job DESC LIMIT ?",
        error);
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, before);
    store_bind_int(statement, 2, limit);
    while ((result = store_statement_next(statement, error)) > 0)
        json_object_array_add(sweeps, sweep_make(statement));
    return result;
}
