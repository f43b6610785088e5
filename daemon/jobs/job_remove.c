/* job_remove.c: see job_remove.h. Rows go in one transaction; the folders, which nobody can reach
 * without the rows, after it (attempts/removed_folders.h). */
#include "daemon/jobs/job_remove.h"

#include "base/log.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/attempts/removed_folders.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/context/context.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/removed_job_rows.h"
#include "daemon/store/spool_store.h"
#include "daemon/store/store.h"
#include "daemon/store/sweep_rows.h"
#include "daemon/store/unswept_attempt_rows.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct removed_job {
    int64_t id, attempts; /* attempts: -1, it was not there */
    int64_t sweep;        /* 0: it is a point of none */
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* A point of a cancelled sweep that never became a row: it goes with the last one that did. */
static int point_look(struct store_connection *connection, struct removed_job *job,
                      struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, "SELECT first_job " SWEEP_OF_POINT_TO_COME " AND cancelled IS NOT NULL", error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job->id);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result;
    job->attempts = 0;
    job->sweep = sqlite3_column_int64(statement, 0);
    return 0;
}

static const char select_job[] =
    "SELECT state, attempt, sweep, EXISTS (SELECT 1 FROM sweep WHERE first_job = job.sweep AND "
    "cancelled IS NULL AND job.id >= first_job + expanded) FROM job WHERE id = :job";

/* Whether it may go, and how many attempts it had. A point that was cancelled before its sweep has
 * come to it stays until then: the sweep would make it once more. */
static int job_look(struct store_connection *connection, struct job_removal *removal,
                    struct removed_job *job, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_job, error);
    enum job_state state;
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job->id);
    job->attempts = -1;
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : point_look(connection, job, error);
    state = (enum job_state)job_state_from_string((const char *)sqlite3_column_text(statement, 0));
    removal->refused = job->id;
    removal->refused_state = state;
    if (!job_state_is_final(state))
        return error_set(error, -EBUSY,
                         "job %lld has not ended (%s); cancel it first, nothing was removed",
                         (long long)job->id, job_state_to_string(state));
    if (!removal->checkpoints_only && sqlite3_column_int(statement, 3))
        return error_set(error, -EBUSY,
                         "job %lld was cancelled before its sweep %lld has come to it; it can go "
                         "once that has, or is cancelled, nothing was removed",
                         (long long)job->id, (long long)sqlite3_column_int64(statement, 2));
    job->attempts = sqlite3_column_int64(statement, 1);
    job->sweep = sqlite3_column_int64(statement, 2);
    return 0;
}

static int rows_change(struct store_connection *connection, const char *sql, int64_t id,
                       struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, sql, error);

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    return store_statement_run(statement, error);
}

/* The sweep keeps how its points have ended: a failure that is removed is no success. */
static const char update_removed[] =
    "UPDATE sweep SET removed = removed + 1, removed_failed = removed_failed + (job.state = "
    "'failed'), removed_cancelled = removed_cancelled + (job.state = 'cancelled') FROM job WHERE "
    "job.id = :job AND first_job = job.sweep AND job.id < first_job + expanded";

static const char delete_sweep[] =
    "DELETE FROM sweep WHERE first_job = :sweep AND (expanded >= points OR cancelled IS NOT NULL) "
    "AND NOT EXISTS (SELECT 1 FROM job WHERE sweep = :sweep)";
static const char delete_dependencies_on_sweep[] =
    "DELETE FROM dependency WHERE on_job = -:sweep AND NOT EXISTS (SELECT 1 FROM sweep WHERE "
    "first_job = :sweep)";

/* The job, its sweep with the last point of it, and what waited for either: that was decided when
 * it ended, and after a restart it would be taken for one that was never done. */
static int job_delete(struct store_connection *connection, const struct removed_job *job,
                      struct error *error)
{
    int result = rows_change(connection, "DELETE FROM dependency WHERE on_job = ?", job->id, error);

    if (result == 0)
        result = removed_job_note(connection, job->id, error);
    if (result == 0 && job->sweep)
        result = rows_change(connection, update_removed, job->id, error);
    if (result == 0)
        result = rows_change(connection, "DELETE FROM job WHERE id = ?", job->id, error);
    if (result == 0 && job->sweep)
        result = rows_change(connection, delete_sweep, job->sweep, error);
    if (result == 0 && job->sweep)
        result = rows_change(connection, delete_dependencies_on_sweep, job->sweep, error);
    return result;
}

static int remove_work(struct store_connection *connection, void *data, struct error *error)
{
    struct job_removal *removal = data;
    int result = 0;

    removal->found = 0;
    for (size_t i = 0; i < removal->count && result == 0; i++) {
        struct removed_job *job = &removal->jobs[i];

        job->id = removal->ids[i];
        result = job_look(connection, removal, job, error);
        if (result < 0 || job->attempts < 0)
            continue;
        removal->found++;
        result = rows_change(connection, CHECKPOINTS_DROP "WHERE job = ?", job->id, error);
        if (result == 0)
            result = removal->checkpoints_only
                         ? unswept_attempts_note(connection, job->id, job->attempts, error)
                         : job_delete(connection, job, error);
    }
    return result;
}

/* ---- both ------------------------------------------------------------------------------------ */

static void on_removed(void *data, int result, const struct error *error)
{
    struct job_removal *removal = data;
    struct daemon *daemon = removal->daemon;
    struct removed_job *jobs = removal->jobs;
    size_t count = removal->count;
    bool checkpoints_only = removal->checkpoints_only;

    removal->jobs = NULL;
    removal->done(removal, result, error);
    if (result == 0)
        checkpoints_purge(&daemon->checkpoint_purge);
    if (result == 0 && !checkpoints_only)
        removed_folders_tidy(daemon);
    for (size_t i = 0; i < count && result == 0 && checkpoints_only; i++)
        for (int64_t attempt = 1; attempt <= jobs[i].attempts; attempt++)
            checkpoint_sweep(daemon, jobs[i].id, attempt);
    free(jobs);
}

void jobs_remove(struct daemon *daemon, struct job_removal *removal)
{
    struct error error = {0};

    removal->daemon = daemon;
    removal->jobs = calloc(removal->count + 1, sizeof *removal->jobs);
    if (!removal->jobs) {
        error_set(&error, -ENOMEM, "no memory left");
        removal->done(removal, -ENOMEM, &error);
        return;
    }
    /* a job's metrics may be many rows */
    store_write_bulk(daemon->store, (unsigned)removal->count * 100, remove_work, on_removed,
                     removal);
}

/* ---- the checkpoints of a job that is done -----------------------------------------------------
 */

struct thinning {
    struct daemon *daemon;
    int64_t job, attempt, kept;
};

static int thin_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct thinning *thinning = data;
    sqlite3_stmt *statement = store_statement(
        connection,
        CHECKPOINTS_DROP "WHERE job = ?1 AND NOT best AND id NOT IN (SELECT id FROM "
                         "checkpoint WHERE job = ?1 ORDER BY step DESC, id DESC LIMIT ?2)",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, thinning->job);
    store_bind_int(statement, 2, thinning->kept);
    result = store_statement_run(statement, error);
    return result < 0 ? result
                      : unswept_attempts_note(connection, thinning->job, thinning->attempt, error);
}

static void on_thinned(void *data, int result, const struct error *error)
{
    struct thinning *thinning = data;

    (void)result; /* what stays is only space on the disk */
    (void)error;
    checkpoints_purge(&thinning->daemon->checkpoint_purge);
    for (int64_t attempt = 1; attempt <= thinning->attempt; attempt++)
        checkpoint_sweep(thinning->daemon, thinning->job, attempt);
    free(thinning);
}

void job_keep_last_checkpoints(struct daemon *daemon, int64_t job, int64_t attempt, int64_t kept)
{
    struct thinning *thinning = malloc(sizeof *thinning);

    if (!thinning)
        return;
    *thinning = (struct thinning){daemon, job, attempt, kept};
    store_write_soon(daemon->store, thin_work, on_thinned, thinning);
}
