/* queue.c: Queue: the jobs that wait for a device, in the order in which they are expected to
 * start. Jobs that the caller may not see are left out, but they count in the positions of the
 * others. */
#include "base/memory.h"
#include "daemon/jobs/forecast.h"
#include "daemon/methods/job_view.h"
#include "daemon/methods/methods.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "scheduler/forecast.h"

#include <stdlib.h>

enum { QUEUE_LIMIT = 50, QUEUE_LIMIT_MAX = 500 };

struct queue_query {
    struct call *call;
    size_t count, limit;
    int64_t ids[FORECAST_JOBS_MAX];
    struct json_object *jobs; /* owned; made on the storage thread */
};

static int read_queue(struct store_connection *connection, void *data, struct error *error)
{
    struct queue_query *query = data;
    size_t bytes = 0;

    for (size_t i = 0; i < query->count && json_object_array_length(query->jobs) < query->limit;
         i++) {
        struct json_object *job = NULL;
        int result = job_row_find(connection, query->ids[i], &job, error);

        if (result < 0 && result != -ERROR_NO_SUCH_JOB)
            return result;
        if (result < 0)
            continue;
        if (!call_sees(query->call, (uid_t)json_get_int(job, "uid", 0)) ||
            job_state_from_string(json_get_string(job, "state", "")) != JOB_QUEUED ||
            !reply_fits(job, &bytes, REPLY_LIST_BYTES))
            json_object_put(job);
        else
            json_object_array_add(query->jobs, job);
    }
    return 0;
}

static void on_queue(void *data, int result, const struct error *error)
{
    struct queue_query *query = data;
    struct call *call = query->call;
    struct json_object *jobs = query->jobs, *reply;

    free(query);
    if (result < 0) {
        json_object_put(jobs);
        call_fail_storage(call, error);
        return;
    }
    for (size_t i = 0; i < json_object_array_length(jobs); i++)
        job_view_add_progress(call->daemon, json_object_array_get_idx(jobs, i));
    reply = json_object_new_object();
    json_set(reply, "jobs", jobs);
    call_reply(call, reply);
}

static void handle_queue(struct call *call)
{
    struct queue_query *query = memory_zero(sizeof *query);
    int64_t limit = json_get_int(call->parameters, "limit", QUEUE_LIMIT);

    query->call = call;
    query->limit = limit < 1 ? 1 : limit > QUEUE_LIMIT_MAX ? QUEUE_LIMIT_MAX : (size_t)limit;
    query->count = jobs_forecast_first(call->daemon, query->ids, FORECAST_JOBS_MAX);
    query->jobs = json_object_new_array();
    store_read(call->daemon->store, read_queue, on_queue, query);
}

/* Strangers see how many jobs come before their own. */
METHOD(Queue, handle_queue, ACCESS_ANYBODY, METHOD_LONG);
