/* sweep_store.c: the rows of sweeps from the daemon's side: submission, and what a restart finds;
 * see sweeps.h. */
#include "base/log.h"
#include "daemon/sweeps.h"

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

int sweep_insert(struct store_connection *connection, struct sweep_run *run, const char *name,
                 enum job_kind kind, int priority, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "INSERT INTO sweep (first_job, points, uid, user, name, kind, priority, spec, axes, "
        "submitted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
    int result = ids_reserve(connection, run->points, &run->first_job, error);

    if (!statement || result < 0)
        return -EIO;
    store_bind_int(statement, 1, run->first_job);
    store_bind_int(statement, 2, run->points);
    store_bind_int(statement, 3, run->uid);
    store_bind_text(statement, 4, run->user);
    store_bind_text(statement, 5, name);
    store_bind_text(statement, 6, job_kind_to_string(kind));
    store_bind_int(statement, 7, priority);
    store_bind_text(statement, 8, json_text(run->spec, NULL));
    store_bind_text(statement, 9, sweep_points_text(run->values));
    store_bind_double(statement, 10, run->submitted);
    return store_statement_run(statement, error);
}

static struct sweep_run *run_read(sqlite3_stmt *row, struct error *error)
{
    JSON_AUTO struct json_object *axes = NULL;
    struct sweep_run *run = calloc(1, sizeof *run);

    if (!run) {
        error_set(error, -ENOMEM, "not enough memory to load the sweeps");
        return NULL;
    }
    run->first_job = sqlite3_column_int64(row, 0);
    run->points = sqlite3_column_int64(row, 1);
    run->expanded = sqlite3_column_int64(row, 2);
    run->uid = (uid_t)sqlite3_column_int64(row, 3);
    run->user = strdup((const char *)sqlite3_column_text(row, 4));
    run->submitted = sqlite3_column_double(row, 7);
    run->cancelled = sqlite3_column_type(row, 9) != SQLITE_NULL;
    run->held = sqlite3_column_type(row, 8) == SQLITE_NULL ? -1 : sqlite3_column_int(row, 8) != 0;
    if (!run->user ||
        json_parse((const char *)sqlite3_column_text(row, 5), (size_t)sqlite3_column_bytes(row, 5),
                   &run->spec, error) < 0 ||
        json_parse((const char *)sqlite3_column_text(row, 6), (size_t)sqlite3_column_bytes(row, 6),
                   &axes, error) < 0 ||
        sweep_points_read(axes, INT64_MAX, &run->values, NULL, error) < 0) {
        error_prefix(error, "sweep %lld", (long long)run->first_job);
        sweep_run_free(run);
        return NULL;
    }
    return run;
}

/* Those with points to come, and those with points that have not ended: somebody may wait for the
 * sweep as a whole. */
int sweeps_read(struct store_connection *connection, struct sweep_run **runs, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT first_job, points, expanded, uid, user, spec, axes, submitted, held, cancelled "
        "FROM sweep WHERE first_job IN (SELECT first_job FROM sweep WHERE cancelled IS NULL AND "
        "expanded < points UNION SELECT sweep FROM job INDEXED BY job_live WHERE state NOT IN "
        "('done', 'failed', 'cancelled') AND sweep IS NOT NULL) ORDER BY first_job",
        error);
    int result;

    *runs = NULL;
    if (!statement)
        return -EIO;
    while ((result = store_statement_next(statement, error)) > 0) {
        struct sweep_run *run = run_read(statement, error);

        if (!run && error->code == -ENOMEM)
            return -ENOMEM;
        if (!run) { /* the others are whole; cancelling it needs its number alone */
            log_error("%s; its row is damaged, and it makes no more points", error->text);
            continue;
        }
        run->next = *runs;
        *runs = run;
    }
    return result;
}
