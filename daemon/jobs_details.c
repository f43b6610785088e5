/* jobs_details.c: what starting a job needs of its specification, read from the store when its
 * start gets close and not kept for all that wait. */
#include "daemon/jobs_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READ_AGAIN_SECONDS = 5 };

/* -EINVAL for a text that is no specification. */
static int details_parse(const char *text, size_t length, struct job_details **parsed,
                         struct error *error)
{
    struct job_details *details = calloc(1, sizeof *details);
    struct json_object *retry;
    int result = details ? json_parse(text, length, &details->spec, error)
                         : error_set(error, -ENOMEM, "not enough memory");

    if (result == 0 && !json_object_is_type(details->spec, json_type_object))
        result = error_set(error, -EINVAL, "it is no JSON object");
    if (result < 0) {
        job_details_free(details);
        return result;
    }
    details->preemption = job_preemption_read(
        details->spec, json_get(details->spec, "command") ? JOB_COMMAND : JOB_NATIVE);
    details->time_limit = json_get_double(details->spec, "time_limit", 0);
    retry = json_get(details->spec, "retry");
    details->retry_limit = retry ? (int)json_get_int(retry, "limit", -1) : -1;
    details->backoff_seconds = retry ? json_get_double(retry, "backoff", -1) : -1;
    *parsed = details;
    return 0;
}

void job_details_free(struct job_details *details)
{
    if (!details)
        return;
    json_object_put(details->spec);
    free(details);
}

void details_read_free(struct details_read *read)
{
    job_details_free(read->details);
    json_object_put(read->plan);
    free(read);
}

int details_read_work(struct store_connection *connection, void *data, struct error *error)
{
    struct details_read *read = data;
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT job.spec, job.plan_digest, CASE WHEN ?2 THEN (SELECT plan FROM plan WHERE plan.uid "
        "= job.uid AND plan.digest = job.plan_digest) END FROM job WHERE job.id = ?1",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, read->id);
    store_bind_int(statement, 2, read->wants_plan);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : error_set(error, -ENOENT, "the job's row is missing");
    result = details_parse((const char *)sqlite3_column_text(statement, 0),
                           (size_t)sqlite3_column_bytes(statement, 0), &read->details, error);
    if (sqlite3_column_type(statement, 1) != SQLITE_NULL)
        snprintf(read->digest, sizeof read->digest, "%s", sqlite3_column_text(statement, 1));
    if (result == 0 && sqlite3_column_type(statement, 2) != SQLITE_NULL &&
        json_parse((const char *)sqlite3_column_text(statement, 2),
                   (size_t)sqlite3_column_bytes(statement, 2), &read->plan, NULL) == -ENOMEM)
        result =
            error_set(error, -ENOMEM, "not enough memory"); /* one that is damaged: made anew */
    return result;
}

void job_details_unread(struct jobs *jobs, struct job *job, int result, const struct error *error)
{
    char reason[JOB_REASON_MAX], note[LOG_NOTE_MAX];

    job_take_from_queues(jobs, job);
    if (result == -EINVAL) {
        snprintf(reason, sizeof reason,
                 "its specification in the database is damaged; submit it again (%.300s)",
                 error->text);
        job_fail(jobs, job, reason);
        return;
    }
    snprintf(reason, sizeof reason,
             "its specification cannot be read, which is tried again: %.300s", error->text);
    if (log_throttle_pass(&jobs->read_throttle, result, note))
        log_error("job %lld: %s%s", (long long)job->id, reason, note);
    job_set_waiting(jobs, job, WAIT_BACKOFF, reason, NULL);
    job_queue_after(jobs, job, READ_AGAIN_SECONDS);
}

static void on_details_read(void *data, int result, const struct error *error)
{
    struct details_read *read = data;
    struct jobs *jobs = read->jobs;
    struct job *job = jobs->stopping ? NULL : job_table_find(&jobs->table, read->id);

    jobs->loading--;
    if (job)
        job->loading = false;
    if (job && result == 0) {
        job_details_free(job->details);
        job->details = TAKE_POINTER(read->details);
        jobs_dispatch(jobs);
    } else if (job && job->state == JOB_QUEUED) {
        job_details_unread(jobs, job, result, error);
        jobs_dispatch(jobs);
    }
    details_read_free(read);
}

void job_details_load(struct jobs *jobs, struct job *job)
{
    struct details_read *read;

    if (job->details || job->loading)
        return;
    read = calloc(1, sizeof *read);
    if (!read)
        return;
    read->jobs = jobs;
    read->id = job->id;
    job->loading = true;
    jobs->loading++;
    store_read(jobs->daemon->store, details_read_work, on_details_read, read);
}
