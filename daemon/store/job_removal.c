/* job_removal.c: see job_removal.h. */
#include "daemon/store/job_removal.h"

#include "daemon/store/checkpoint_purge.h"
#include "daemon/store/dependency_rows.h"
#include "daemon/store/removed_job_rows.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"
#include "daemon/store/sweep_store.h"
#include "daemon/store/unswept_attempt_rows.h"

#include <errno.h>

static const char select_point[] =
    "SELECT first_job" SQL_SWEEP_OF_POINT " AND cancelled IS NOT NULL";

/* A point of a cancelled sweep that never became a row. It disappears with the sweep's last row. */
static int point_look(struct store_connection *connection, struct removed_job *job,
                      struct error *error)
{
    AUTO_STATEMENT struct statement row =
        statement_of_job(connection, select_point, job->id, error);

    if (row.result <= 0)
        return row.result;
    job->attempts = 0;
    job->sweep = statement_int(&row, 0);
    return 0;
}

static const char select_job[] =
    "SELECT state, attempt, sweep, EXISTS (SELECT 1 FROM sweep WHERE first_job = job.sweep"
    "  AND cancelled IS NULL AND job.id >= first_job + expanded),"
    " (SELECT min(id) FROM job AS heir WHERE heir.weights_job = job.id AND " SQL_LIVE ")"
    " FROM job WHERE id = :job";

/* Checks whether the job may be removed, and reads how many attempts it had. A point that was
 * cancelled before its sweep reached it must stay until then, because the sweep would create it
 * again. */
static int job_look(struct store_connection *connection, struct job_rows_removal *removal,
                    struct removed_job *job, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_job, job->id, error);
    enum job_state state;

    job->attempts = -1;
    if (row.result <= 0)
        return row.result < 0 ? row.result : point_look(connection, job, error);
    state = (enum job_state)statement_choice(&row, 0, job_state_from_string, JOB_QUEUED);
    removal->refused = job->id;
    removal->refused_state = state;
    if (!job_state_is_final(state))
        return error_set(error, -EBUSY,
                         "job %lld has not ended (%s); cancel it first, nothing was removed",
                         (long long)job->id, job_state_to_string(state));
    if (!removal->checkpoints_only && statement_int(&row, 3))
        return error_set(error, -EBUSY,
                         "job %lld was cancelled before its sweep %lld has come to it; it can go "
                         "once that has, or is cancelled, nothing was removed",
                         (long long)job->id, (long long)statement_int(&row, 2));
    if (statement_int(&row, 4))
        return error_set(error, -EBUSY,
                         "job %lld begins with the weights of job %lld and has not ended; cancel "
                         "it first, nothing was removed",
                         (long long)statement_int(&row, 4), (long long)job->id);
    job->attempts = statement_int(&row, 1);
    job->sweep = statement_int(&row, 2);
    return 0;
}

static const char delete_job[] = "DELETE FROM job WHERE id = :job";

static int row_delete(struct store_connection *connection, int64_t job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_job, error);

    statement_bind_int(&statement, ":job", job);
    return statement_run(&statement);
}

/* Deletes the job, its sweep if this was the last point, and the dependencies on both. Those were
 * settled when the job ended. After a restart a dependency on a missing job would look like one on
 * a job that was never done. */
static int job_delete(struct store_connection *connection, const struct removed_job *job,
                      struct error *error)
{
    int result = dependencies_on_delete(connection, job->id, error);

    if (result == 0)
        result = removed_job_note(connection, job->id, error);
    if (result == 0 && job->sweep)
        result = sweep_removal_count(connection, job->id, error);
    if (result == 0)
        result = row_delete(connection, job->id, error);
    if (result == 0 && job->sweep)
        result = sweep_delete_if_last(connection, job->sweep, error);
    return result;
}

int job_rows_remove(struct store_connection *connection, struct job_rows_removal *removal,
                    struct error *error)
{
    int result = 0;

    removal->found = 0;
    for (size_t i = 0; i < removal->count && result == 0; i++) {
        struct removed_job *job = &removal->jobs[i];

        job->id = removal->ids[i];
        result = job_look(connection, removal, job, error);
        if (result < 0 || job->attempts < 0)
            continue;
        removal->found++;
        result = checkpoints_drop(connection, job->id, error);
        if (result == 0)
            result = removal->checkpoints_only
                         ? unswept_attempts_note(connection, job->id, job->attempts, error)
                         : job_delete(connection, job, error);
    }
    return result;
}
