/* details.c: see details.h. */
#include "daemon/jobs/details.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/store.h"
#include "daemon/work/job_preemption.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READ_AGAIN_SECONDS = 5, DETAILS_PER_READ = 32 };

struct details_reads {
    struct details_batch *gathered; /* owned; NULL: none yet */
    size_t under_way;
    struct log_throttle throttle;
};

/* Takes `spec` over. -EINVAL: it is no specification. */
static int details_make(struct json_object *spec, struct job_details **made, struct error *error)
{
    struct job_details *details;
    struct json_object *retry;

    if (!json_object_is_type(spec, json_type_object)) {
        json_object_put(spec);
        return error_set(error, -EINVAL, "it is no JSON object");
    }
    details = memory_zero(sizeof *details);
    details->spec = spec;
    details->preemption =
        job_preemption_read(spec, json_get(spec, "command") ? JOB_COMMAND : JOB_NATIVE);
    details->time_limit = json_get_double(spec, "time_limit", 0);
    retry = json_get(spec, "retry");
    details->retry_limit = retry ? (int)json_get_int(retry, "limit", -1) : -1;
    details->backoff_seconds = retry ? json_get_double(retry, "backoff", -1) : -1;
    *made = details;
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
    struct json_object *spec;
    int result = job_start_read(connection, read->id, read->wants_plan, &spec, read->digest,
                                &read->plan, error);

    if (result < 0) {
        json_object_put(spec);
        return result;
    }
    return details_make(spec, &read->details, error);
}

void job_details_unread(struct jobs *jobs, struct job *job, int result, const struct error *error)
{
    char reason[JOB_REASON_MAX], note[LOG_NOTE_MAX];

    job_take_from_queues(jobs, job);
    if (result == -EINVAL) {
        snprintf(reason, sizeof reason,
                 "its specification in the database is damaged; submit it again (%.300s)",
                 error->text);
        job_fail(jobs, job, reason, NULL);
        return;
    }
    snprintf(reason, sizeof reason, "its specification cannot be read; traind tries again: %.300s",
             error->text);
    if (log_throttle_pass(&jobs->details_reads->throttle, result, note))
        log_error("job %lld: %s%s", (long long)job->id, reason, note);
    job_set_waiting(jobs, job, WAIT_BACKOFF, reason, NULL);
    job_queue_after(jobs, job, READ_AGAIN_SECONDS);
}

/* ---- the reads of one decision --------------------------------------------------------------- */

struct batch_read {
    struct details_read read;
    int result;          /* 1: not read */
    struct error *error; /* owned; of its own failure */
};

/* One request reads the details of many jobs, so the reader begins one transaction for them, and
 * they make one decision due. */
struct details_batch {
    struct jobs *jobs;
    size_t count;
    struct batch_read reads[DETAILS_PER_READ];
};

static int read_batch(struct store_connection *connection, void *data, struct error *error)
{
    struct details_batch *batch = data;
    int result = 0;

    for (size_t i = 0; i < batch->count; i++) {
        struct batch_read *one = &batch->reads[i];

        one->result = details_read_work(connection, &one->read, error);
        if (one->result == 0)
            continue;
        one->error = memory_allocate(sizeof *one->error);
        *one->error = *error;
        if (one->result == -ERROR_DAMAGED || result == 0)
            result = one->result;
    }
    return result;
}

/* Ends one read of a batch, which failed with `result` and `error` where it has no result of its
 * own. */
static void take_read(struct jobs *jobs, struct batch_read *one, int result,
                      const struct error *error)
{
    struct job *job = jobs->stopping ? NULL : job_table_find(jobs->table, one->read.id);

    if (one->result <= 0) {
        result = one->result;
        error = one->error;
    }
    if (!job)
        return;
    job->loading = false;
    if (job->outdated) { /* the decision that is due reads them again */
        job->outdated = false;
    } else if (result == 0) {
        job_details_free(job->details);
        job->details = TAKE_POINTER(one->read.details);
    } else if (job->state == JOB_QUEUED) {
        job_details_unread(jobs, job, result, error);
    }
    jobs_dispatch(jobs);
}

static void on_batch_read(void *data, int result, const struct error *error)
{
    struct details_batch *batch = data;

    batch->jobs->details_reads->under_way--;
    for (size_t i = 0; i < batch->count; i++) {
        struct batch_read *one = &batch->reads[i];

        take_read(batch->jobs, one, result, error);
        job_details_free(one->read.details);
        json_object_put(one->read.plan);
        free(one->error);
    }
    free(batch);
}

void job_details_load(struct jobs *jobs, struct job *job)
{
    struct details_reads *reads = jobs->details_reads;

    if (job->details || job->loading)
        return;
    if (!reads->gathered) {
        reads->gathered = memory_zero(sizeof *reads->gathered);
        reads->gathered->jobs = jobs;
    }
    reads->gathered->reads[reads->gathered->count++] = (struct batch_read){
        .read = {.jobs = jobs, .id = job->id},
        .result = 1,
    };
    job->loading = true;
    job->outdated = false;
    if (reads->gathered->count == DETAILS_PER_READ)
        details_read_gathered(jobs);
}

void details_read_gathered(struct jobs *jobs)
{
    struct details_reads *reads = jobs->details_reads;

    if (!reads->gathered)
        return;
    reads->under_way++;
    store_read(jobs->daemon->store, read_batch, on_batch_read, TAKE_POINTER(reads->gathered));
}

bool details_are_loading(const struct jobs *jobs)
{
    return jobs->details_reads->under_way > 0;
}

void details_start(struct jobs *jobs)
{
    jobs->details_reads = memory_zero(sizeof *jobs->details_reads);
}
