/* live_rows.c: see live_rows.h. */
#include "daemon/store/live_rows.h"

#include "base/memory.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

#include <stdlib.h>
#include <string.h>

/* Copies the text for the caller, who frees it. NULL if the column is null. */
static char *text_copy(const struct statement *row, int column)
{
    const char *text = statement_text(row, column);

    return memory_copy_text(text);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* clang-format off */
static const char select_jobs[] =
    "SELECT id, uid, kind, state, wait_reason, priority, attempt,"
    "  CASE WHEN attempt > 0 THEN (SELECT count(*) FROM attempt WHERE attempt.job = job.id"
    "    AND attempt.ending IN ('exited', 'signalled', 'out_of_memory', 'lost')"
    "    AND coalesce(attempt.error_kind, '') NOT IN"
    "     ('device_memory', 'device_lost', 'not_restored')"
    "    AND coalesce(attempt.error_kind, '') NOT IN (SELECT value FROM json_each(:sharing)))"
    "   ELSE 0 END,"
    "  CASE WHEN attempt > 0 THEN (SELECT count(*) FROM attempt WHERE attempt.job = job.id"
    "    AND attempt.ending = 'out_of_memory') ELSE 0 END,"
    "  EXISTS (SELECT 1 FROM attempt WHERE attempt.job = job.id AND attempt.error_kind"
    "    IN (SELECT value FROM json_each(:sharing))),"
    "  submitted,"
    "  CASE WHEN wait_reason = 'backoff'"
    "   THEN coalesce(json_extract(" SQL_JSON("spec") ", '$.retry.backoff'), -1) ELSE -1 END,"
    "  plan_digest, pinned,"
    "  json_object('device', json_extract(" SQL_JSON("spec") ", '$.device'),"
    "   'resources', json_extract(" SQL_JSON("spec") ", '$.resources')),"
    "  put_first,"
    "  CASE WHEN attempt > 0 AND state = 'queued' THEN (SELECT max(time) FROM transition"
    "    WHERE transition.job = job.id AND to_state = 'queued' AND from_state <> 'queued') END"
    " FROM job WHERE " SQL_LIVE " ORDER BY id";
/* clang-format on */

static struct live_job job_read(const struct statement *row)
{
    struct live_job job = {
        .id = statement_int(row, 0),
        .uid = (uid_t)statement_int(row, 1),
        .kind = (enum job_kind)statement_choice(row, 2, job_kind_from_string, 0),
        .state = (enum job_state)statement_choice(row, 3, job_state_from_string, 0),
        .wait_reason = (enum wait_reason)statement_choice(row, 4, wait_reason_from_string, 0),
        .priority = (int)statement_int(row, 5),
        .attempt = (int)statement_int(row, 6),
        .retries = (int)statement_int(row, 7),
        .memory_failures = (int)statement_int(row, 8),
        .avoids_sharing = statement_int(row, 9) != 0,
        .submitted = statement_double(row, 10),
        .backoff = statement_double(row, 11),
        .needs = text_copy(row, 14),
        .put_first = statement_double(row, 15),
    };

    job.queued = statement_is_null(row, 16) ? job.submitted : statement_double(row, 16);

    statement_copy_text(row, 12, job.digest, sizeof job.digest);
    statement_copy_text(row, 13, job.pinned, sizeof job.pinned);
    return job;
}

int live_jobs_read(struct store_connection *connection, const char *sharing,
                   int (*take)(void *data, struct live_job *job), void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_jobs, error);

    statement_bind_text(&rows, ":sharing", sharing);
    while (statement_next(&rows) > 0) {
        struct live_job job = job_read(&rows);

        if (take(data, &job) < 0) {
            free(job.needs);
            return error_no_memory(error, "the jobs");
        }
    }
    return rows.result;
}

static const char select_plans[] =
    "SELECT min(job.id), plan.plan FROM job"
    "  JOIN plan ON plan.uid = job.uid AND plan.digest = job.plan_digest"
    " WHERE job." SQL_LIVE " GROUP BY plan.uid, plan.digest ORDER BY min(job.id)";

int live_plans_read(struct store_connection *connection,
                    void (*take)(void *data, int64_t job, const char *plan), void *data,
                    struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_plans, error);

    while (statement_next(&rows) > 0)
        take(data, statement_int(&rows, 0), statement_text(&rows, 1));
    return rows.result;
}

static const char select_links[] =
    "SELECT id, held, job_group, notifies, sweep, at FROM"
    "  (SELECT *, json_extract(" SQL_JSON(
        "spec") ", '$.at') AS at FROM job WHERE " SQL_LIVE ")"
                " WHERE held OR job_group IS NOT NULL OR notifies OR sweep IS NOT NULL OR at IS NOT NULL"
                " ORDER BY id";

int live_links_read(struct store_connection *connection,
                    int (*take)(void *data, const struct live_links *links), void *data,
                    struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_links, error);

    while (statement_next(&rows) > 0) {
        struct live_links links = {
            .job = statement_int(&rows, 0),
            .held = statement_int(&rows, 1) != 0,
            .group = statement_text(&rows, 2),
            .notifies = statement_int(&rows, 3) != 0,
            .sweep = statement_int(&rows, 4),
            .at = statement_double(&rows, 5),
        };

        if (take(data, &links) < 0)
            return error_no_memory(error, "what jobs wait for");
    }
    return rows.result;
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* clang-format off */
#define EVENT_OF_ATTEMPT(column, kind) \
    "(SELECT " column " FROM event WHERE event.job = attempt.job" \
    " AND event.attempt = attempt.number AND event.kind = '" kind "' ORDER BY id DESC LIMIT 1)"
static const char select_attempts[] =
    "SELECT attempt.job, attempt.number, spool_offset.offset, spool_offset.n,"
    "  attempt.resumed_from_step, attempt.started, attempt.ending, attempt.preemption,"
    "  " EVENT_OF_ATTEMPT(SQL_JSON("detail") " ->> 'came_from'", "error") ","
    "  job.uid, job.kind, job.state, attempt.device, attempt.message,"
    "  " EVENT_OF_ATTEMPT("detail", "start") ","
    "  attempt.suspended + coalesce(max(" SQL_NOW
    "    - attempt.suspended_since, 0), 0)"
    " FROM attempt JOIN job ON job.id = attempt.job"
    "  LEFT JOIN spool_offset ON spool_offset.job = attempt.job"
    "   AND spool_offset.attempt = attempt.number"
    " WHERE attempt.ended IS NULL";
/* clang-format on */

static struct live_attempt attempt_read(const struct statement *row)
{
    struct live_attempt attempt = {
        .job = statement_int(row, 0),
        .number = statement_int(row, 1),
        .offset = statement_int(row, 2),
        .n = statement_int(row, 3),
        .resumed_from_step = statement_is_null(row, 4) ? -1 : statement_int(row, 4),
        .started = statement_double(row, 5),
        .ending = (enum ending)statement_choice(row, 6, ending_from_string, 0),
        .preemption = (enum preemption)statement_choice(row, 7, preemption_from_string, 0),
        .uid = (uid_t)statement_int(row, 9),
        .kind = (enum job_kind)statement_choice(row, 10, job_kind_from_string, 0),
        .job_state = (enum job_state)statement_choice(row, 11, job_state_from_string, 0),
        .device = text_copy(row, 12),
        .message = text_copy(row, 13),
        .start = text_copy(row, 14),
        .suspended = statement_double(row, 15),
    };

    statement_copy_text(row, 8, attempt.disagrees_with, sizeof attempt.disagrees_with);
    return attempt;
}

void live_attempt_release(struct live_attempt *attempt)
{
    free(attempt->device);
    free(attempt->message);
    free(attempt->start);
}

int live_attempts_read(struct store_connection *connection,
                       int (*take)(void *data, struct live_attempt *attempt), void *data,
                       struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_attempts, error);

    while (statement_next(&rows) > 0) {
        struct live_attempt attempt = attempt_read(&rows);

        if (take(data, &attempt) < 0) {
            live_attempt_release(&attempt);
            return error_no_memory(error, "the attempts");
        }
    }
    return rows.result;
}
