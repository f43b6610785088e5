/* submit.c: Submit and SubmitMany. Input: one specification, or many. A worker thread checks them
 * and fills in defaults, because a batch, or looking up the user's name, may take long. The writer
 * stores all of them in one transaction. Only then the table of jobs and the client hear of them.
 * One invalid specification refuses all. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory.h"
#include "daemon/folder/code_snapshot.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/methods/methods.h"
#include "daemon/methods/quota.h"
#include "daemon/store/checkpoint_source.h"
#include "daemon/store/job_insert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct batch {
    uv_work_t work;
    struct call *call;
    bool many;
    struct json_object *specs; /* lent by the call: one, or an array */
    struct job_entry *entries; /* owned */
    size_t count;
    uid_t uid;
    int64_t priority_max;
    char *user; /* owned */
    double time;
    int result; /* of the check */
    struct error error;
    struct job_spec_fault fault;
    bool circular;            /* the dependencies are invalid */
    size_t culprit;           /* the specification with an impossible dependency */
    int64_t missing;          /* the id of a job that does not exist */
    struct quota_claim claim; /* until jobs_add() */
};

static void batch_free(struct batch *batch)
{
    quota_claim_end(&batch->claim);
    for (size_t i = 0; i < batch->count; i++)
        job_entry_release(&batch->entries[i]);
    free(batch->entries);
    free(batch->user);
    free(batch);
}

/* ---- the check, on a worker thread ----------------------------------------------------------- */

/* Checks the dependencies among the specifications of the call. */
static void check_dependencies(struct batch *batch)
{
    struct dependencies *all = calloc(batch->count + 1, sizeof *all);

    for (size_t i = 0; all && i < batch->count; i++)
        all[i] = batch->entries[i].submission.dependencies; /* lent */
    batch->result =
        all ? dependencies_check(all, batch->count, &batch->culprit, &batch->error)
            : error_no_memory(&batch->error, "the dependencies of %zu jobs", batch->count);
    batch->circular = batch->result < 0;
    free(all);
}

/* Whether the frozen code that the job names is kept; it stays then until the job is stored. */
static int check_snapshot(struct batch *batch, const struct job_entry *entry)
{
    if (!*entry->snapshot)
        return 0;
    batch->fault = (struct job_spec_fault){.path = "snapshot.id"};
    return code_snapshot_check(batch->call->daemon->state_directory, batch->uid, entry->snapshot,
                               &batch->error);
}

static void prepare_batch(uv_work_t *work)
{
    struct batch *batch = work->data;

    if (!batch->user)
        batch->user = job_user_name(batch->uid);
    for (size_t i = 0; i < batch->count && batch->result == 0; i++) {
        batch->result = job_entry_prepare(
            batch->many ? json_object_array_get_idx(batch->specs, i) : batch->specs, batch->uid,
            &batch->entries[i], &batch->fault, &batch->error);
        if (batch->result == 0)
            batch->result = job_priority_check(batch->entries[i].submission.priority,
                                               batch->priority_max, &batch->fault, &batch->error);
        if (batch->result == 0)
            batch->result = check_snapshot(batch, &batch->entries[i]);
        if (batch->result == 0)
            batch->result = job_at_check(batch->entries[i].has_at, batch->entries[i].submission.at,
                                         batch->time, &batch->fault, &batch->error);
        if (batch->result < 0 && batch->many) {
            char path[sizeof batch->fault.path];

            snprintf(path, sizeof path, "specs[%zu]%s%.200s", i, *batch->fault.path ? "." : "",
                     batch->fault.path);
            strcpy(batch->fault.path, path);
            error_prefix(&batch->error, "specs[%zu]", i);
        }
    }
    if (batch->result == 0)
        check_dependencies(batch);
}

/* ---- storing, on the writer ------------------------------------------------------------------ */

/* Whether the checkpoints are there that the jobs begin with. They stay until these have ended
 * (job_rows_remove()). */
static int check_weights(struct store_connection *connection, struct batch *batch,
                         struct error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct checkpoint_source source = {.job = batch->entries[i].weights_job,
                                                 .step = batch->entries[i].weights_step,
                                                 .asker = batch->uid};
        struct stored_checkpoint found;
        int result = source.job ? checkpoint_source_find(connection, &source, &found, error) : 0;

        if (result == -ERROR_STALE_FILE) {
            if (batch->many)
                snprintf(batch->fault.path, sizeof batch->fault.path, "specs[%zu].weights.job", i);
            else
                snprintf(batch->fault.path, sizeof batch->fault.path, "weights.job");
            error_prefix(error, "%s", batch->fault.path);
        }
        if (result < 0)
            return result;
    }
    return 0;
}

static int insert_batch(struct store_connection *connection, void *data, struct error *error)
{
    struct batch *batch = data;
    int result = check_weights(connection, batch, error);

    if (result < 0)
        return result;
    return job_entries_insert(connection, batch->entries, batch->count, batch->user, batch->time,
                              &batch->culprit, &batch->missing, error);
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

/* A reply with a note about the first job that names no device. */
struct noted_reply {
    struct call *call;
    struct json_object *reply; /* owned */
    int64_t job;
    char note[JOB_REASON_MAX];
};

static int do_nothing(struct store_connection *connection, void *data, struct error *error)
{
    (void)connection;
    (void)data;
    (void)error;
    return 0;
}

/* A job that has begun or ended meanwhile keeps the note that it had. */
static void on_history_known(void *data, int result, const struct error *error)
{
    struct noted_reply *noted = data;
    char note[JOB_REASON_MAX];

    (void)result;
    (void)error;
    jobs_explain_default(noted->call->daemon, noted->job, note, sizeof note);
    json_set_string(noted->reply, "note", *note ? note : noted->note);
    call_reply(noted->call, noted->reply);
    free(noted);
}

/* Answers. If a default applies to a job, it may rest on earlier runs of the command. These were
 * asked for when the job came, and the reader answers in order, so they are known after one more
 * turn of it. */
static void reply_with_note(const struct batch *batch, struct json_object *reply)
{
    struct daemon *daemon = batch->call->daemon;
    struct noted_reply noted = {.call = batch->call, .reply = reply}, *kept;

    for (size_t i = 0; i < batch->count && !*noted.note; i++) {
        noted.job = batch->entries[i].submission.id;
        jobs_explain_default(daemon, noted.job, noted.note, sizeof noted.note);
    }
    if (!*noted.note) {
        call_reply(batch->call, reply);
        return;
    }
    kept = memory_allocate(sizeof *kept);
    *kept = noted;
    store_read(daemon->store, do_nothing, on_history_known, kept);
}

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

/* Ends the call with the sentence of batch->error, and names a missing job. */
static void refuse_dependency(struct batch *batch)
{
    struct call *call = batch->call;
    struct json_object *parameters = json_object_new_object();
    struct error error = batch->error;
    char path[64];

    if (batch->many)
        snprintf(path, sizeof path, "specs[%zu].after", batch->culprit);
    else
        snprintf(path, sizeof path, "after");
    json_set_string(parameters, "path", path);
    if (batch->missing > 0)
        json_set_int(parameters, "job", batch->missing);
    else
        json_set(parameters, "job", NULL);
    batch_free(batch);
    call_fail(call, "InvalidDependency", parameters, "%s: %s", path, error.text);
}

static void on_stored(void *data, int result, const struct error *error)
{
    struct batch *batch = data;
    struct call *call = batch->call;

    if (result == -ENOENT) {
        batch->error = *error;
        refuse_dependency(batch);
        return;
    }
    if (result == -ERROR_STALE_FILE) {
        batch->error = *error;
        refuse_spec(batch);
        return;
    }
    if (result < 0) {
        batch_free(batch);
        call_fail_storage(call, error);
        return;
    }
    for (size_t i = 0; i < batch->count; i++)
        jobs_add(call->daemon, &batch->entries[i].submission);

    reply_with_note(batch, make_reply(batch));
    batch_free(batch);
}

/* ---- on the loop ----------------------------------------------------------------------------- */

/* The number of dependencies of a prepared batch. */
static int64_t dependencies_of(const struct batch *batch)
{
    int64_t count = 0;

    for (size_t i = 0; i < batch->count; i++)
        count += (int64_t)batch->entries[i].submission.dependencies.count;
    return count;
}

/* Refuses specifications that ask for devices that this machine does not have. */
static int check_devices(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const char *key = "device";

        if (jobs_check_devices(batch->call->daemon, batch->entries[i].needs, &key, &batch->error) ==
            0)
            continue;
        if (batch->many)
            snprintf(batch->fault.path, sizeof batch->fault.path, "specs[%zu].%s", i, key);
        else
            snprintf(batch->fault.path, sizeof batch->fault.path, "%s", key);
        return error_prefix(&batch->error, "%s", batch->fault.path);
    }
    return 0;
}

/* Whether the batch has too many dependencies; the call has ended then. */
static bool waits_for_too_many(struct batch *batch)
{
    if (quota_dependencies_exceeded(batch->call, dependencies_of(batch)))
        return true;
    batch->claim.dependencies = dependencies_of(batch);
    return false;
}

static void on_prepared(uv_work_t *work, int status)
{
    struct batch *batch = work->data;

    (void)status; /* never cancelled */
    if (batch->result == 0)
        batch->result = check_devices(batch);
    call_set_user(batch->call, batch->user);
    if (batch->result < 0 && batch->circular)
        refuse_dependency(batch);
    else if (batch->result < 0)
        refuse_spec(batch);
    else if (waits_for_too_many(batch))
        batch_free(batch);
    else
        store_write(batch->call->daemon->store, insert_batch, on_stored, batch);
}

static void begin(struct call *call, struct json_object *specs, size_t count, bool many)
{
    struct batch *batch;

    if (quota_exceeded(call, (int64_t)count))
        return;
    batch = memory_zero(sizeof *batch);
    batch->entries = calloc(count ? count : 1, sizeof *batch->entries);
    if (!batch->entries) {
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
    batch->priority_max = quota_priority_max(call);
    batch->time = clock_now();
    batch->user = memory_copy_text(call_user(call));
    quota_claim_begin(&batch->claim, batch->uid, (int64_t)batch->count);
    daemon_queue_work(call->daemon, &batch->work, prepare_batch, on_prepared);
}

static void handle_submit(struct call *call)
{
    begin(call, json_get(call->parameters, "spec"), 1, false);
}

/* Strangers see the state of a job in `after`. */
METHOD(Submit, handle_submit, ACCESS_ANYBODY, METHOD_SHORT);

static void handle_submit_many(struct call *call)
{
    struct json_object *specs = json_get(call->parameters, "specs"), *parameters;
    size_t count = json_object_array_length(specs);

    if (count <= SUBMIT_MANY_MAX) {
        begin(call, specs, count, true);
        return;
    }
    parameters = json_object_new_object();
    json_set_string(parameters, "path", "specs");
    json_set(parameters, "nearest", NULL);
    call_fail(call, "InvalidSpec", parameters,
              "specs has %zu elements; a call takes at most %d, send the others in further calls",
              count, SUBMIT_MANY_MAX);
}

/* Strangers see what Submit shows. */
METHOD(SubmitMany, handle_submit_many, ACCESS_ANYBODY, METHOD_SHORT);
