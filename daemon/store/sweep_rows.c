/* sweep_rows.c: see sweep_rows.h. */
#include "daemon/store/sweep_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"
#include "daemon/types/job_types.h"
#include "daemon/work/sweep_points.h"

#include <inttypes.h>
#include <string.h>

/* ---- points ---------------------------------------------------------------------------------- */

static void point_set_state(struct json_object *job, const struct statement *row, int64_t id)
{
    bool cancelled = !statement_is_null(row, 7);
    int64_t first = statement_int(row, 0);
    char reason[160];

    snprintf(reason, sizeof reason,
             "point %" PRId64 " of %" PRId64 " of the sweep %" PRId64
             "; those before it come first",
             id - first, statement_int(row, 1), first);
    json_set_string(job, "state", job_state_to_string(cancelled ? JOB_CANCELLED : JOB_QUEUED));
    json_set_string(job, "reason", cancelled ? "its sweep was cancelled" : reason);
    json_set_string(job, "wait_reason", cancelled ? NULL : wait_reason_to_string(WAIT_SWEEP));
    row_set_double(job, "ended", row, 7);
}

/* clang-format off */
static const char select_point[] =
    "SELECT first_job, points, uid, user, name, kind, priority, cancelled, submitted,"
    "  json_extract(" SQL_JSON("spec") ", '$.group')" SQL_SWEEP_OF_POINT;
/* clang-format on */

int sweep_point_find(struct store_connection *connection, int64_t id, struct json_object **job,
                     struct error *error)
{
    static const char *const absent[] = {"device", "started", "exit_status", "progress",
                                         "best",   "ran",     "nonfinite"};
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_point, id, error);

    if (row.result <= 0)
        return row.result < 0
                   ? row.result
                   : error_set(error, -ERROR_NO_SUCH_JOB, "there is no job %" PRId64, id);
    *job = json_object_new_object();
    json_set_int(*job, "id", id);
    row_set_int(*job, "sweep", &row, 0);
    row_set_int(*job, "uid", &row, 2);
    row_set_text(*job, "user", &row, 3);
    row_set_text(*job, "name", &row, 4);
    row_set_text(*job, "kind", &row, 5);
    row_set_int(*job, "priority", &row, 6);
    row_set_double(*job, "submitted", &row, 8);
    row_set_text(*job, "group", &row, 9);
    json_set_int(*job, "attempt", 0);
    json_set_bool(*job, "held", false);
    json_set_bool(*job, "stopped", false);
    json_set(*job, "metrics", json_object_new_object());
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        json_set(*job, absent[i], NULL);
    point_set_state(*job, &row, id);
    return 0;
}

static const char select_point_spec[] = "SELECT first_job, spec, axes" SQL_SWEEP_OF_POINT;

int sweep_point_read_spec(struct store_connection *connection, int64_t id,
                          struct json_object **spec, struct error *error)
{
    AUTO_STATEMENT struct statement row =
        statement_of_job(connection, select_point_spec, id, error);
    JSON_AUTO struct json_object *base = NULL, *axes = NULL;
    struct sweep_points *points = NULL;
    int64_t first;
    int result;

    if (row.result <= 0)
        return row.result < 0
                   ? row.result
                   : error_set(error, -ERROR_NO_SUCH_JOB, "there is no job %" PRId64, id);
    first = statement_int(&row, 0);
    base = row_read_object(&row, 1);
    axes = row_read_object(&row, 2);
    if (!base || !axes)
        return error_set(error, -ERROR_DAMAGED, "the row of sweep %" PRId64 " is damaged", first);
    result = sweep_points_read(axes, INT64_MAX, &points, NULL, error);
    if (result == 0)
        result = sweep_points_learn(points) /* it has no values before its turn comes */
                     ? sweep_values_apply(NULL, base, spec, error)
                     : sweep_point_spec(points, id - first, base, spec, error);
    sweep_points_free(points);
    return result;
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

#define SWEEP_COLUMNS "first_job, name, user, uid, points, expanded, submitted, cancelled, removed"

static struct json_object *sweep_make(const struct statement *row)
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

static const char count_states[] =
    "SELECT state, count(*) FROM job WHERE sweep = :sweep GROUP BY state";

/* Points that have no row and were not removed count as queued, or as cancelled. */
static int states_count(struct store_connection *connection, struct json_object *sweep,
                        struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, count_states, error);
    struct json_object *states = json_object_new_object();
    int64_t left = json_get_int(sweep, "points", 0) - json_get_int(sweep, "removed", 0);
    const char *rest = json_get(sweep, "cancelled") ? "cancelled" : "queued";

    json_set(sweep, "states", states);
    statement_bind_int(&rows, ":sweep", json_get_int(sweep, "id", 0));
    while (statement_next(&rows) > 0) {
        row_set_int(states, statement_text(&rows, 0), &rows, 1);
        left -= statement_int(&rows, 1);
    }
    if (left > 0)
        json_set_int(states, rest, json_get_int(states, rest, 0) + left);
    return rows.result;
}

static const char select_sweep[] =
    "SELECT " SWEEP_COLUMNS ", spec, axes FROM sweep WHERE first_job = :sweep";

int sweep_row_find(struct store_connection *connection, int64_t first_job,
                   struct json_object **sweep, struct json_object **spec, struct json_object **axes,
                   struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_sweep, error);

    statement_bind_int(&row, ":sweep", first_job);
    if (statement_next(&row) < 0)
        return row.result;
    if (row.result == 0)
        return error_set(error, -ERROR_NO_SUCH_JOB,
                         "there is no sweep %" PRId64
                         "; a sweep is named by the number of its first job",
                         first_job);
    *sweep = sweep_make(&row);
    if (spec)
        *spec = row_read_object(&row, 9);
    if (axes)
        *axes = row_read_object(&row, 10);
    return states_count(connection, *sweep, error);
}

static const char select_sweeps[] = "SELECT " SWEEP_COLUMNS " FROM sweep WHERE first_job < :before"
                                    " ORDER BY first_job DESC LIMIT :limit";

int sweep_rows_list(struct store_connection *connection, int64_t before, int64_t limit,
                    struct json_object *sweeps, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_sweeps, error);

    statement_bind_int(&rows, ":before", before);
    statement_bind_int(&rows, ":limit", limit);
    while (statement_next(&rows) > 0)
        json_object_array_add(sweeps, sweep_make(&rows));
    return rows.result;
}

static const char select_owner[] = "SELECT uid FROM sweep WHERE first_job = :sweep";

int sweep_owner_read(struct store_connection *connection, int64_t first_job, uid_t *uid,
                     struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_owner, error);

    statement_bind_int(&row, ":sweep", first_job);
    if (statement_next(&row) > 0)
        *uid = (uid_t)statement_int(&row, 0);
    return row.result;
}
