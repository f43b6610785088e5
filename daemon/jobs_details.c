/* jobs_details.c: what starting a job needs of its specification, read from the store when its
 * start gets close and not kept for all that wait. */
#include "daemon/jobs_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct job_details *details_parse(const char *text, size_t length, struct error *error)
{
    struct job_details *details = calloc(1, sizeof *details);
    struct json_object *retry;

    if (!details || json_parse(text, length, &details->spec, error) < 0) {
        free(details);
        return NULL;
    }
    details->preemption = job_preemption_read(
        details->spec, json_get(details->spec, "command") ? JOB_COMMAND : JOB_NATIVE);
    details->time_limit = json_get_double(details->spec, "time_limit", 0);
    retry = json_get(details->spec, "retry");
    details->retry_limit = retry ? (int)json_get_int(retry, "limit", -1) : -1;
    details->backoff_seconds = retry ? json_get_double(retry, "backoff", -1) : -1;
    return details;
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
    read->details = details_parse((const char *)sqlite3_column_text(statement, 0),
                                  (size_t)sqlite3_column_bytes(statement, 0), error);
    result = read->details ? 0 : error->code;
    if (sqlite3_column_type(statement, 1) != SQLITE_NULL)
        snprintf(read->digest, sizeof read->digest, "%s", sqlite3_column_text(statement, 1));
    if (result == 0 && sqlite3_column_type(statement, 2) != SQLITE_NULL)
        result = json_parse((const char *)sqlite3_column_text(statement, 2),
                            (size_t)sqlite3_column_bytes(statement, 2), &read->plan, error);
    return result;
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
        char reason[JOB_REASON_MAX];

        snprintf(reason, sizeof reason, "its specification cannot be read: %.400s", error->text);
        job_fail(jobs, job, reason);
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
