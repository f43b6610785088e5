/* sweep_store.c: see sweep_store.h. */
#include "daemon/store/sweep_store.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Job ids after the last one that was ever given out; the next insertion goes on behind them. */
static int ids_reserve(struct store_connection *connection, int64_t count, int64_t *first,
                       struct error *error)
{
    sqlite3_stmt *begin = store_statement(
        connection,
        "INSERT INTO traind.sqlite_sequence (name, seq) SELECT 'job', 0 WHERE NOT EXISTS "
        "(SELECT 1 FROM traind.sqlite_sequence WHERE name = 'job')",
        error);
    sqlite3_stmt *advance = store_statement(
        connection,
        "UPDATE traind.sqlite_sequence SET seq = seq + ? WHERE name = 'job' RETURNING seq", error);
    int result;

    if (!begin || !advance)
        return -EIO;
    result = store_statement_run(begin, error);
    if (result < 0)
        return result;
    store_bind_int(advance, 1, count);
    result = store_statement_next(advance, error);
    if (result > 0)
        *first = sqlite3_column_int64(advance, 0) - count + 1;
    return result < 0 ? result : 0;
}

int sweep_insert(struct store_connection *connection, struct sweep *sweep, const char *name,
                 enum job_kind kind, int priority, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "INSERT INTO sweep (first_job, points, uid, user, name, kind, priority, spec, axes, "
        "submitted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
    int result = ids_reserve(connection, sweep->points, &sweep->first_job, error);

    if (!statement || result < 0)
        return -EIO;
    store_bind_int(statement, 1, sweep->first_job);
    store_bind_int(statement, 2, sweep->points);
    store_bind_int(statement, 3, sweep->uid);
    store_bind_text(statement, 4, sweep->user);
    store_bind_text(statement, 5, name);
    store_bind_text(statement, 6, job_kind_to_string(kind));
    store_bind_int(statement, 7, priority);
    store_bind_text(statement, 8, json_text(sweep->spec, NULL));
    store_bind_text(statement, 9, sweep_points_text(sweep->values));
    store_bind_double(statement, 10, sweep->submitted);
    return store_statement_run(statement, error);
}

/* -ENOMEM; -EUCLEAN, with a sentence: the row is damaged. */
static int sweep_read(sqlite3_stmt *row, struct sweep *sweep, struct error *error)
{
    JSON_AUTO struct json_object *axes = NULL;

    *sweep = (struct sweep){
        .first_job = sqlite3_column_int64(row, 0),
        .points = sqlite3_column_int64(row, 1),
        .expanded = sqlite3_column_int64(row, 2),
        .uid = (uid_t)sqlite3_column_int64(row, 3),
        .user = strdup((const char *)sqlite3_column_text(row, 4)),
        .submitted = sqlite3_column_double(row, 7),
        .held = sqlite3_column_type(row, 8) == SQLITE_NULL ? -1 : sqlite3_column_int(row, 8) != 0,
        .cancelled = sqlite3_column_type(row, 9) != SQLITE_NULL,
    };
    if (!sweep->user)
        return error_set(error, -ENOMEM, "not enough memory to load the sweeps");
    if (json_parse((const char *)sqlite3_column_text(row, 5), (size_t)sqlite3_column_bytes(row, 5),
                   &sweep->spec, error) < 0 ||
        json_parse((const char *)sqlite3_column_text(row, 6), (size_t)sqlite3_column_bytes(row, 6),
                   &axes, error) < 0 ||
        sweep_points_read(axes, INT64_MAX, &sweep->values, NULL, error) < 0) {
        error_prefix(error, "sweep %lld", (long long)sweep->first_job);
        return error->code == -ENOMEM ? -ENOMEM : -EUCLEAN;
    }
    return 0;
}

/* Those with points that have not ended are among them: somebody may wait for the sweep as a whole.
 */
int sweeps_read(struct store_connection *connection, int (*take)(void *data, struct sweep *sweep),
                void *data, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT first_job, points, expanded, uid, user, spec, axes, submitted, held, cancelled "
        "FROM sweep WHERE first_job IN (SELECT first_job FROM sweep WHERE cancelled IS NULL AND "
        "expanded < points UNION SELECT sweep FROM job INDEXED BY job_live WHERE state NOT IN "
        "('done', 'failed', 'cancelled') AND sweep IS NOT NULL) ORDER BY first_job",
        error);
    int result;

    if (!statement)
        return -EIO;
    while ((result = store_statement_next(statement, error)) > 0) {
        struct sweep sweep;
        int r = sweep_read(statement, &sweep, error);

        if (r == -EUCLEAN) { /* the others are whole; cancelling it needs its number alone */
            log_error("%s; its row is damaged, and it makes no more points", error->text);
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
    return result;
}

/* ---- changes --------------------------------------------------------------------------------- */

static const char update_expanded[] =
    "UPDATE sweep SET expanded = :expanded WHERE first_job = :sweep AND expanded = :before "
    "AND cancelled IS NULL";

int sweep_expanded_store(struct store_connection *connection, const struct sweep *sweep,
                         int64_t count, bool *stored, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, update_expanded, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, sweep->expanded + count);
    store_bind_int(statement, 2, sweep->first_job);
    store_bind_int(statement, 3, sweep->expanded);
    result = store_statement_run(statement, error);
    *stored = result == 0 && sqlite3_changes(store_database(connection)) > 0;
    return result;
}

static const char update_cancelled[] =
    "UPDATE sweep SET cancelled = :time WHERE first_job = :sweep AND cancelled IS NULL AND "
    "expanded < points";
static const char select_points[] = "SELECT points, expanded FROM sweep WHERE first_job = :sweep";

int sweep_cancelled_store(struct store_connection *connection, int64_t first_job, double time,
                          bool *marked, int64_t *points, int64_t *expanded, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, update_cancelled, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_double(statement, 1, time);
    store_bind_int(statement, 2, first_job);
    result = store_statement_run(statement, error);
    *marked = result == 0 && sqlite3_changes(store_database(connection)) > 0;
    if (result < 0)
        return result;
    statement = store_statement(connection, select_points, error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, first_job);
    result = store_statement_next(statement, error);
    *points = result > 0 ? sqlite3_column_int64(statement, 0) : 0;
    *expanded = result > 0 ? sqlite3_column_int64(statement, 1) : 0;
    return result < 0 ? result : 0;
}

static const char update_held[] =
    "UPDATE sweep SET held = :held WHERE first_job = :sweep RETURNING expanded, cancelled IS NULL "
    "AND expanded < points";

int sweep_held_store(struct store_connection *connection, int64_t first_job, bool held,
                     int64_t *expanded, bool *open, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, update_held, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, held);
    store_bind_int(statement, 2, first_job);
    result = store_statement_next(statement, error);
    if (result > 0) {
        *expanded = sqlite3_column_int64(statement, 0);
        *open = sqlite3_column_int(statement, 1) != 0;
    }
    return result < 0 ? result : 0;
}
