/* schedules.c: Schedule, Unschedule and Schedules. Input: a specification and a calendar
 * expression, or the id of a schedule. A worker thread checks both; the reply leaves once the row
 * is stored. */
#include "daemon/jobs/schedules.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/folder/code_snapshot.h"
#include "daemon/jobs/code_snapshots.h"
#include "daemon/jobs/jobs.h"
#include "daemon/methods/methods.h"
#include "daemon/methods/quota.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- Schedule -------------------------------------------------------------------------------- */

struct request {
    uv_work_t work;
    struct call *call;
    int64_t priority_max;
    struct job_entry entry;
    struct schedule_row row; /* owned until it is stored */
    struct calendar calendar;
    int result;
    struct error error;
    struct job_spec_fault fault;
};

static void request_free(struct request *request)
{
    schedule_row_release(&request->row);
    job_entry_release(&request->entry);
    free(request);
}

/* Keys of a specification that make no sense for a job that is made later. */
static int check_keys(struct request *request)
{
    const char *key = request->entry.has_at                          ? "at"
                      : request->entry.submission.dependencies.count ? "after"
                                                                     : NULL;

    if (!key)
        return 0;
    request->fault = (struct job_spec_fault){.path = ""};
    snprintf(request->fault.path, sizeof request->fault.path, "%s", key);
    return error_set(&request->error, -EINVAL,
                     "%s: a schedule makes its jobs at its own times, and they wait for no other "
                     "jobs; leave %s out",
                     key, key);
}

/* Finds the first time; a schedule without one makes no sense. */
static int check_calendar(struct request *request)
{
    int64_t next;
    int result = calendar_parse(request->row.every, &request->calendar, &request->error);

    request->fault = (struct job_spec_fault){.path = "every"};
    if (result < 0)
        return result;
    if (calendar_next(&request->calendar, (int64_t)clock_now(), &next) < 0)
        return error_set(&request->error, -EINVAL,
                         "\"%.80s\" never comes: the time has passed, or no calendar has the day",
                         request->row.every);
    request->row.next = (double)next;
    return 0;
}

static int request_check(struct request *request)
{
    struct job_entry *entry = &request->entry;
    int result = check_calendar(request);

    if (result == 0) {
        request->fault = (struct job_spec_fault){.path = ""};
        result = job_entry_prepare(json_get(request->call->parameters, "spec"), request->row.uid,
                                   entry, &request->fault, &request->error);
    }
    if (result == 0)
        result = job_priority_check(entry->submission.priority, request->priority_max,
                                    &request->fault, &request->error);
    if (result == 0 && *entry->snapshot) {
        request->fault = (struct job_spec_fault){.path = "snapshot.id"};
        result = code_snapshot_check(request->call->daemon->state_directory, request->row.uid,
                                     entry->snapshot, &request->error);
    }
    return result < 0 ? result : check_keys(request);
}

static void on_request_work(uv_work_t *work)
{
    struct request *request = work->data;

    if (!request->row.user)
        request->row.user = job_user_name(request->row.uid);
    request->result = request_check(request);
}

static int too_many(struct error *error)
{
    return error_set(error, -EDQUOT,
                     "a user may have %d schedules; `trainctl unschedule` removes one",
                     SCHEDULES_PER_USER);
}

static int request_store(struct store_connection *connection, void *data, struct error *error)
{
    struct request *request = data;
    int64_t count = 0;
    int result = schedules_count(connection, request->row.uid, &count, error);

    if (result == 0 && !request->call->peer.admin && count >= SCHEDULES_PER_USER)
        return too_many(error); /* others of the user's calls have been faster */
    return result < 0 ? result : schedule_insert(connection, &request->row, error);
}

static void on_request_stored(void *data, int result, const struct error *error)
{
    struct request *request = data;
    struct call *call = request->call;
    struct json_object *reply;

    if (result < 0) {
        request_free(request);
        if (result == -EDQUOT)
            call_fail(call, "QuotaExceeded", NULL, "%s", error->text);
        else
            call_fail_storage(call, error);
        return;
    }
    reply = json_object_new_object();
    json_set_int(reply, "id", request->row.id);
    json_set_double(reply, "next", request->row.next);
    schedules_add(call->daemon, &request->row, &request->calendar);
    request->row = (struct schedule_row){.id = 0};
    request_free(request);
    call_reply(call, reply);
}

static void refuse(struct request *request)
{
    struct call *call = request->call;
    struct json_object *parameters = json_object_new_object();
    struct error error = request->error;

    json_set_string(parameters, "path", *request->fault.path ? request->fault.path : NULL);
    json_set_string(parameters, "nearest", *request->fault.nearest ? request->fault.nearest : NULL);
    request_free(request);
    call_fail(call, "InvalidSpec", parameters, "%s", error.text);
}

static void on_request_checked(uv_work_t *work, int status)
{
    struct request *request = work->data;
    const char *key = "device";

    (void)status; /* never cancelled */
    call_set_user(request->call, request->row.user);
    if (request->result == 0 && jobs_check_devices(request->call->daemon, request->entry.needs,
                                                   &key, &request->error) < 0) {
        request->result = -EINVAL;
        snprintf(request->fault.path, sizeof request->fault.path, "%s", key);
    }
    if (request->result < 0) {
        refuse(request);
        return;
    }
    request->row.name = memory_copy_text(request->entry.name);
    request->row.spec = memory_copy_text(request->entry.spec);
    request->row.submitted = clock_now();
    store_write(request->call->daemon->store, request_store, on_request_stored, request);
}

static void handle_schedule(struct call *call)
{
    struct request *request;

    if (!call->peer.admin &&
        schedules_count_of_user(call->daemon, call->peer.uid) >= SCHEDULES_PER_USER) {
        struct error error;

        too_many(&error);
        call_fail(call, "QuotaExceeded", NULL, "%s", error.text);
        return;
    }
    request = memory_zero(sizeof *request);
    request->work.data = request;
    request->call = call;
    request->priority_max = quota_priority_max(call);
    request->row.uid = call->peer.uid;
    request->row.user = call_user(call) ? memory_copy_text(call_user(call)) : NULL;
    request->row.every = memory_copy_text(json_get_string(call->parameters, "every", ""));
    daemon_queue_work(call->daemon, &request->work, on_request_work, on_request_checked);
}

/* Strangers see nothing. */
METHOD(Schedule, handle_schedule, ACCESS_ANYBODY, METHOD_SHORT);

/* ---- Unschedule ------------------------------------------------------------------------------ */

static int removal_store(struct store_connection *connection, void *data, struct error *error)
{
    const struct call *call = data;

    return schedule_delete(connection, json_get_int(call->parameters, "id", 0), error);
}

static void on_removal_stored(void *data, int result, const struct error *error)
{
    struct call *call = data;

    if (result < 0) {
        call_fail_storage(call, error);
        return;
    }
    schedules_remove(call->daemon, json_get_int(call->parameters, "id", 0));
    code_snapshots_tidy(call->daemon);
    call_reply(call, json_object_new_object());
}

static void handle_unschedule(struct call *call)
{
    int64_t id = json_get_int(call->parameters, "id", 0);
    const struct schedule *schedule = schedules_find(call->daemon, id);

    /* a stranger does not learn which ones there are */
    if (!schedule || (schedule->row.uid != call->peer.uid && !call->peer.admin)) {
        struct json_object *parameters = json_object_new_object();

        json_set_int(parameters, "id", id);
        call_fail(call, "NoSuchSchedule", parameters,
                  "you have no schedule %lld; `trainctl schedules` lists yours", (long long)id);
        return;
    }
    store_write(call->daemon->store, removal_store, on_removal_stored, call);
}

/* Strangers see nothing. */
METHOD(Unschedule, handle_unschedule, ACCESS_ANYBODY, METHOD_SHORT);

/* ---- Schedules ------------------------------------------------------------------------------- */

static struct json_object *schedule_describe(const struct schedule_row *row)
{
    struct json_object *object = json_object_new_object();

    json_set_int(object, "id", row->id);
    json_set_string(object, "name", row->name);
    json_set_string(object, "user", row->user);
    json_set_string(object, "every", row->every);
    json_set_double(object, "submitted", row->submitted);
    if (isnan(row->next))
        json_set(object, "next", NULL);
    else
        json_set_double(object, "next", row->next);
    if (row->last_job)
        json_set_int(object, "last_job", row->last_job);
    else
        json_set(object, "last_job", NULL);
    json_set_int(object, "skipped", row->skipped);
    json_set_string(object, "failure", row->failure);
    return object;
}

static void handle_schedules(struct call *call)
{
    struct json_object *reply = json_object_new_object(), *list = json_object_new_array();
    int64_t before = json_get_int(call->parameters, "before", INT64_MAX), next = 0;
    size_t bytes = 0;

    for (const struct schedule *schedule = schedules_first(call->daemon); schedule && !next;
         schedule = schedule->next_schedule) {
        struct json_object *object;

        if (schedule->row.id >= before ||
            (schedule->row.uid != call->peer.uid && !call->peer.admin))
            continue;
        object = schedule_describe(&schedule->row);
        if (reply_fits(object, &bytes, REPLY_LIST_BYTES)) {
            json_object_array_add(list, object);
        } else {
            json_object_put(object);
            next = schedule->row.id + 1;
        }
    }
    json_set(reply, "schedules", list);
    if (next)
        json_set_int(reply, "next", next);
    else
        json_set(reply, "next", NULL);
    call_reply(call, reply);
}

/* Strangers see nothing; only an administrator sees the schedules of all users. */
METHOD(Schedules, handle_schedules, ACCESS_ANYBODY, METHOD_LONG);
