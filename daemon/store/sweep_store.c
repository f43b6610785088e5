/* sweep_store.c: see sweep_store.h. */
#include "daemon/store/sweep_store.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/store/columns.h"
#include "daemon/store/search_rows.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char insert_sequence[] =
    "INSERT INTO traind.sqlite_sequence (name, seq) SELECT 'job', 0"
    " WHERE NOT EXISTS (SELECT 1 FROM traind.sqlite_sequence WHERE name = 'job')";
static const char advance_sequence[] =
    "UPDATE traind.sqlite_sequence SET seq = seq + :count WHERE name = 'job' RETURNING seq";

/* Reserves job ids behind the last one that was ever used. The next insertion continues behind
 * them. */
static int ids_reserve(struct store_connection *connection, int64_t count, int64_t *first,
                       struct error *error)
{
    AUTO_STATEMENT struct statement begin = statement_open(connection, insert_sequence, error);
    AUTO_STATEMENT struct statement advance = statement_open(connection, advance_sequence, error);

    if (statement_run(&begin) < 0)
        return begin.result;
    statement_bind_int(&advance, ":count", count);
    if (statement_next(&advance) > 0)
        *first = statement_int(&advance, 0) - count + 1;
    return advance.result < 0 ? advance.result : 0;
}

static const char insert_sweep[] =
    "INSERT INTO sweep"
    " (first_job, points, uid, user, name, kind, priority, spec, axes, submitted, results_due)"
    " VALUES (:first_job, :points, :uid, :user, :name, :kind, :priority, :spec, :axes, :submitted,"
    "  :results_due)";

int sweep_insert(struct store_connection *connection, struct sweep *sweep, const char *name,
                 enum job_kind kind, int priority, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_sweep, error);
    int result = ids_reserve(connection, sweep->points, &sweep->first_job, error);

    if (result < 0)
        return result;
    statement_bind_int(&statement, ":first_job", sweep->first_job);
    statement_bind_int(&statement, ":points", sweep->points);
    statement_bind_int(&statement, ":uid", sweep->uid);
    statement_bind_text(&statement, ":user", sweep->user);
    statement_bind_text(&statement, ":name", name);
    statement_bind_text(&statement, ":kind", job_kind_to_string(kind));
    statement_bind_int(&statement, ":priority", priority);
    statement_bind_text(&statement, ":spec", json_text(sweep->spec, NULL));
    statement_bind_text(&statement, ":axes", sweep_points_text(sweep->values));
    statement_bind_double(&statement, ":submitted", sweep->submitted);
    statement_bind_int(&statement, ":results_due", sweep_points_search(sweep->values) != NULL);
    return statement_run(&statement);
}

/* -ENOMEM; -ERROR_DAMAGED, with a sentence: the row is damaged. */
static int sweep_read(const struct statement *row, struct sweep *sweep, struct error *error)
{
    JSON_AUTO struct json_object *axes = NULL;

    *sweep = (struct sweep){
        .first_job = statement_int(row, 0),
        .points = statement_int(row, 1),
        .expanded = statement_int(row, 2),
        .uid = (uid_t)statement_int(row, 3),
        .user = memory_copy_text(statement_text(row, 4)),
        .submitted = statement_double(row, 7),
        .held = statement_is_null(row, 8) ? -1 : statement_int(row, 8) != 0,
        .cancelled = !statement_is_null(row, 9),
    };
    if (row_parse_object(row, 5, &sweep->spec, error) < 0 ||
        row_parse_object(row, 6, &axes, error) < 0 ||
        sweep_points_read(axes, INT64_MAX, &sweep->values, NULL, error) < 0) {
        error_prefix(error, "sweep %lld", (long long)sweep->first_job);
        return error->code == -ENOMEM ? -ENOMEM : -ERROR_DAMAGED;
    }
    return 0;
}

/* This includes sweeps with jobs that have not ended, because another job may wait for the whole
 * sweep, and searches that may lack results of trials that have. */
static const char select_open[] =
    "SELECT first_job, points, expanded, uid, user, spec, axes, submitted, held, cancelled"
    " FROM sweep WHERE first_job IN ("
    "  SELECT first_job FROM sweep WHERE (cancelled IS NULL AND expanded < points) OR results_due"
    "  UNION SELECT sweep FROM job INDEXED BY job_live WHERE " SQL_LIVE " AND sweep IS NOT NULL)"
    " ORDER BY first_job";

int sweeps_read(struct store_connection *connection, int (*take)(void *data, struct sweep *sweep),
                void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_open, error);

    while (statement_next(&rows) > 0) {
        struct sweep sweep;
        int r = sweep_read(&rows, &sweep, error);

        if (r == -ERROR_DAMAGED) { /* the other sweeps are intact; cancelling this one needs only
                                    * its number */
            log_error("%s; its row is damaged, so it creates no more jobs", error->text);
            sweep_release(&sweep);
            continue;
        }
        if (r == 0)
            r = take(data, &sweep);
        if (r < 0) {
            sweep_release(&sweep);
            return error_set(error, r, "not enough memory to load the sweeps");
        }
    }
    return rows.result;
}

/* ---- changes --------------------------------------------------------------------------------- */

static const char update_expanded[] =
    "UPDATE sweep SET expanded = :expanded WHERE first_job = :sweep AND expanded = :before "
    "AND cancelled IS NULL";

int sweep_expanded_store(struct store_connection *connection, const struct sweep *sweep,
                         int64_t count, bool *stored, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_expanded, error);

    statement_bind_int(&statement, ":expanded", sweep->expanded + count);
    statement_bind_int(&statement, ":sweep", sweep->first_job);
    statement_bind_int(&statement, ":before", sweep->expanded);
    *stored = statement_run(&statement) == 0 && statement_changes(&statement) > 0;
    return statement.result;
}

static const char update_cancelled[] =
    "UPDATE sweep SET cancelled = :time"
    " WHERE first_job = :sweep AND cancelled IS NULL AND expanded < points";
static const char select_points[] = "SELECT points, expanded FROM sweep WHERE first_job = :sweep";

int sweep_cancelled_store(struct store_connection *connection, int64_t first_job, double time,
                          bool *marked, int64_t *points, int64_t *expanded, struct error *error)
{
    AUTO_STATEMENT struct statement mark = statement_open(connection, update_cancelled, error);
    AUTO_STATEMENT struct statement row = statement_open(connection, select_points, error);

    statement_bind_double(&mark, ":time", time);
    statement_bind_int(&mark, ":sweep", first_job);
    *marked = statement_run(&mark) == 0 && statement_changes(&mark) > 0;
    if (mark.result < 0)
        return mark.result;
    statement_bind_int(&row, ":sweep", first_job);
    statement_next(&row);
    *points = row.result > 0 ? statement_int(&row, 0) : 0;
    *expanded = row.result > 0 ? statement_int(&row, 1) : 0;
    return row.result < 0 ? row.result : 0;
}

static const char update_held[] = "UPDATE sweep SET held = :held WHERE first_job = :sweep"
                                  " RETURNING expanded, cancelled IS NULL AND expanded < points";

int sweep_held_store(struct store_connection *connection, int64_t first_job, bool held,
                     int64_t *expanded, bool *open, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, update_held, error);

    statement_bind_int(&row, ":held", held);
    statement_bind_int(&row, ":sweep", first_job);
    if (statement_next(&row) > 0) {
        *expanded = statement_int(&row, 0);
        *open = statement_int(&row, 1) != 0;
    }
    return row.result < 0 ? row.result : 0;
}

/* ---- removal --------------------------------------------------------------------------------- */

static const char update_removed[] =
    "UPDATE sweep SET removed = removed + 1,"
    "  removed_failed = removed_failed + (job.state = 'failed'),"
    "  removed_cancelled = removed_cancelled +"
    "    (job.state = 'cancelled' AND NOT " SQL_STOPPED ")"
    " FROM job WHERE job.id = :job AND first_job = job.sweep AND job.id < first_job + expanded";
static const char delete_sweep[] =
    "DELETE FROM sweep WHERE first_job = :sweep AND (expanded >= points OR cancelled IS NOT NULL)"
    " AND NOT EXISTS (SELECT 1 FROM job WHERE sweep = :sweep)";
static const char delete_dependencies[] =
    "DELETE FROM dependency WHERE on_job = -:sweep"
    " AND NOT EXISTS (SELECT 1 FROM sweep WHERE first_job = :sweep)";

int sweep_removal_count(struct store_connection *connection, int64_t job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_removed, error);

    statement_bind_int(&statement, ":job", job);
    return statement_run(&statement);
}

int sweep_delete_if_last(struct store_connection *connection, int64_t first_job,
                         struct error *error)
{
    AUTO_STATEMENT struct statement sweep = statement_open(connection, delete_sweep, error);
    AUTO_STATEMENT struct statement dependencies =
        statement_open(connection, delete_dependencies, error);

    statement_bind_int(&sweep, ":sweep", first_job);
    statement_bind_int(&dependencies, ":sweep", first_job);
    if (statement_run(&sweep) < 0)
        return sweep.result;
    if (statement_changes(&sweep) > 0 && search_rows_delete(connection, first_job, error) < 0)
        return error->code;
    return statement_run(&dependencies);
}
