/* handlers_submit.c: Submit and SubmitMany.
 *
 * Input: one specification, or many. Action: a worker thread checks them and fills in defaults (a
 * batch takes its time, and so may looking up the user's name), the writer stores all of them in
 * one transaction, and only then the jobs module and the client hear of them. One that is wrong
 * refuses all. */
#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/handlers.h"
#include "daemon/jobs.h"
#include "daemon/store.h"
#include "proto/job_spec.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

enum { SPEC_TEXT_MAX = 256 * 1024 }; /* bytes, normalised: Show's reply has to hold it */

struct entry {
    struct job_submission submission;
    char *name; /* owned, as is spec */
    char *spec;
};

struct batch {
    uv_work_t work;
    struct call *call;
    bool many;
    struct json_object *specs; /* lent by the call: one, or an array */
    struct entry *entries;     /* owned */
    size_t count;
    uid_t uid;
    char *user; /* owned */
    double time;
    int result; /* of the check */
    struct error error;
    struct job_spec_fault fault;
    struct batch *next; /* in flight */
};

/* Batches between their arrival and jobs_add(), which the quota has to count, too. The loop's. */
static struct batch *batches_in_flight;

static void batch_free(struct batch *batch)
{
    for (struct batch **link = &batches_in_flight; *link; link = &(*link)->next)
        if (*link == batch) {
            *link = batch->next;
            break;
        }
    for (size_t i = 0; i < batch->count; i++) {
        free(batch->entries[i].name);
        free(batch->entries[i].spec);
    }
    free(batch->entries);
    free(batch->user);
    free(batch);
}

/* ---- the check, on a worker thread -------------------------------------------------------------
 */

static char *find_user_name(uid_t uid)
{
    struct passwd entry, *found = NULL;
    char buffer[4096], *name;

    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
        return strdup(found->pw_name);
    return asprintf(&name, "%u", (unsigned)uid) < 0 ? NULL : name;
}

static int prepare_entry(struct batch *batch, struct json_object *spec, struct entry *entry)
{
    struct json_object *normalised JSON_AUTO = NULL;
    size_t length;
    const char *text;
    int result = job_spec_normalise(spec, &normalised, &batch->fault, &batch->error);

    if (result < 0)
        return result;
    text = json_text(normalised, &length);
    if (length > SPEC_TEXT_MAX)
        return error_set(
            &batch->error, -EINVAL,
            "the specification has %zu bytes with its defaults; at most %d are allowed", length,
            SPEC_TEXT_MAX);
    entry->spec = strdup(text);
    entry->name = strdup(json_get_string(normalised, "name", ""));
    if (!entry->spec || !entry->name)
        return error_set(&batch->error, -ENOMEM, "no memory left");
    entry->submission.uid = batch->uid;
    entry->submission.kind = job_spec_is_command(normalised) ? JOB_COMMAND : JOB_NATIVE;
    entry->submission.priority = (int)json_get_int(normalised, "priority", 0);
    if (entry->submission.kind == JOB_NATIVE)
        job_spec_plan_digest(normalised, entry->submission.plan_digest);
    return 0;
}

static void prepare_batch(uv_work_t *work)
{
    struct batch *batch = work->data;

    if (!batch->user)
        batch->user = find_user_name(batch->uid);
    for (size_t i = 0; i < batch->count && batch->result == 0; i++) {
        batch->result = prepare_entry(
            batch, batch->many ? json_object_array_get_idx(batch->specs, i) : batch->specs,
            &batch->entries[i]);
        if (batch->result < 0 && batch->many) {
            char path[sizeof batch->fault.path];

            snprintf(path, sizeof path, "specs[%zu]%s%.200s", i, *batch->fault.path ? "." : "",
                     batch->fault.path);
            strcpy(batch->fault.path, path);
            error_prefix(&batch->error, "specs[%zu]", i);
        }
    }
}

/* ---- storing, on the writer --------------------------------------------------------------------
 */

static int insert_entry(struct store_connection *connection, struct batch *batch,
                        struct entry *entry, struct error *error)
{
    sqlite3_stmt *job = store_statement(
        connection,
        "INSERT INTO job (name, kind, state, uid, user, priority, spec, plan_digest, wait_reason,"
        "  submitted, reason) VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
    sqlite3_stmt *transition;
    int result;

    if (!job)
        return -EIO;
    sqlite3_bind_text(job, 1, entry->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(job, 2, job_kind_to_string(entry->submission.kind), -1, SQLITE_STATIC);
    store_bind_int(job, 3, batch->uid);
    sqlite3_bind_text(job, 4, batch->user, -1, SQLITE_STATIC);
    store_bind_int(job, 5, entry->submission.priority);
    sqlite3_bind_text(job, 6, entry->spec, -1, SQLITE_STATIC);
    store_bind_text(job, 7, *entry->submission.plan_digest ? entry->submission.plan_digest : NULL);
    sqlite3_bind_text(job, 8,
                      wait_reason_to_string(
                          entry->submission.kind == JOB_NATIVE ? WAIT_PLANNING : WAIT_DEVICE_BUSY),
                      -1, SQLITE_STATIC);
    store_bind_double(job, 9, batch->time);
    sqlite3_bind_text(
        job, 10, entry->submission.kind == JOB_NATIVE ? "waits for its plan" : "waits for its turn",
        -1, SQLITE_STATIC);
    result = store_statement_run(job, error);
    if (result < 0)
        return result;
    entry->submission.id = sqlite3_last_insert_rowid(store_database(connection));

    transition = store_statement(
        connection, "INSERT INTO transition (job, time, to_state) VALUES (?, ?, 'queued')", error);
    if (!transition)
        return -EIO;
    store_bind_int(transition, 1, entry->submission.id);
    store_bind_double(transition, 2, batch->time);
    return store_statement_run(transition, error);
}

static int insert_batch(struct store_connection *connection, void *data, struct error *error)
{
    struct batch *batch = data;
    int result = 0;

    for (size_t i = 0; i < batch->count && result == 0; i++)
        result = insert_entry(connection, batch, &batch->entries[i], error);
    return result;
}

static struct json_object *make_reply(const struct batch *batch)
{
    struct json_object *reply = json_object_new_object(), *ids;

    if (!batch->many) {
        json_set_int(reply, "id", batch->entries[0].submission.id);
        json_set_string(reply, "state", job_state_to_string(JOB_QUEUED));
        return reply;
    }
    ids = json_object_new_array_ext((int)batch->count + 1);
    for (size_t i = 0; i < batch->count; i++)
        json_object_array_add(ids, json_object_new_int64(batch->entries[i].submission.id));
    json_set(reply, "ids", ids);
    return reply;
}

static void on_stored(void *data, int result, const struct error *error)
{
    struct batch *batch = data;
    struct call *call = batch->call;

    if (result < 0) {
        batch_free(batch);
        call_fail_storage(call, error);
        return;
    }
    for (size_t i = 0; i < batch->count; i++)
        jobs_add(call->daemon, &batch->entries[i].submission);

    struct json_object *reply = make_reply(batch);
    batch_free(batch);
    call_reply(call, reply);
}

/* ---- on the loop -------------------------------------------------------------------------------
 */

static void refuse_spec(struct batch *batch)
{
    struct call *call = batch->call;
    struct json_object *parameters = json_object_new_object();
    struct error error = batch->error;

    json_set_string(parameters, "path", *batch->fault.path ? batch->fault.path : NULL);
    json_set_string(parameters, "nearest", *batch->fault.nearest ? batch->fault.nearest : NULL);
    batch_free(batch);
    call_fail(call, "InvalidSpec", parameters, "%s", error.text);
}

static void on_prepared(uv_work_t *work, int status)
{
    struct batch *batch = work->data;

    (void)status; /* never cancelled */
    if (batch->result == 0 && !batch->user)
        batch->result = error_set(&batch->error, -ENOMEM, "no memory left");
    if (batch->user)
        call_set_user(batch->call, batch->user);
    if (batch->result < 0)
        refuse_spec(batch);
    else
        store_write(batch->call->daemon->store, insert_batch, on_stored, batch);
}

static int64_t count_jobs_of_user(struct daemon *daemon, uid_t uid)
{
    int64_t count = (int64_t)jobs_count_of_user(daemon, uid);

    for (const struct batch *batch = batches_in_flight; batch; batch = batch->next)
        if (batch->uid == uid)
            count += (int64_t)batch->count;
    return count;
}

static void begin(struct call *call, struct json_object *specs, size_t count, bool many)
{
    int64_t limit = call->daemon->config.jobs_per_user;
    struct batch *batch;

    if (!call->peer.admin &&
        count_jobs_of_user(call->daemon, call->peer.uid) + (int64_t)count > limit) {
        call_fail(
            call, "QuotaExceeded", NULL,
            "a user may have %lld jobs that have not ended (JobsPerUser); wait for some to end "
            "or cancel them",
            (long long)limit);
        return;
    }
    batch = calloc(1, sizeof *batch);
    if (batch)
        batch->entries = calloc(count ? count : 1, sizeof *batch->entries);
    if (!batch || !batch->entries) {
        free(batch);
        call_fail(call, "InternalError", NULL, "no memory left");
        return;
    }
    batch->work.data = batch;
    batch->call = call;
    batch->many = many;
    batch->specs = specs;
    batch->count = count;
    batch->uid = call->peer.uid;
    batch->time = daemon_time();
    if (call_user(call))
        batch->user = strdup(call_user(call));
    batch->next = batches_in_flight;
    batches_in_flight = batch;
    uv_queue_work(call->daemon->loop, &batch->work, prepare_batch, on_prepared);
}

void handle_submit(struct call *call)
{
    begin(call, json_get(call->parameters, "spec"), 1, false);
}

void handle_submit_many(struct call *call)
{
    struct json_object *specs = json_get(call->parameters, "specs");

    begin(call, specs, json_object_array_length(specs), true);
}
