/* sweep.c: SubmitSweep, ShowSweep, CancelSweep, HoldSweep, ReleaseSweep and Sweeps. A worker thread
 * reads the sweep and checks the specification with each value of each axis. The writer reserves
 * the ids and stores one row. The reply comes once the first window of points has become rows
 * (jobs/sweeps.h), so List then shows the points of a small sweep. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memory.h"
#include "daemon/folder/code_snapshot.h"
#include "daemon/jobs/sweep_changes.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/methods/methods.h"
#include "daemon/methods/quota.h"
#include "daemon/store/checkpoint_source.h"
#include "daemon/store/dependency_rows.h"
#include "daemon/store/sweep_rows.h"
#include "daemon/store/sweep_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_LIMIT = 20, LIST_LIMIT_MAX = 200 };

/* ---- SubmitSweep ----------------------------------------------------------------------------- */

struct submission {
    uv_work_t work;
    struct call *call;
    struct sweep_run *run;
    struct job_entry first; /* the first point, for the row's name, kind and priority */
    int64_t points_max, priority_max;
    struct quota_claim claim; /* until sweeps_add() */
    int result;
    bool sweep_wrong; /* the sweep is invalid, not its specification */
    struct error error;
    struct job_spec_fault fault;
};

static void submission_free(struct submission *submission)
{
    quota_claim_end(&submission->claim);
    sweep_run_free(submission->run);
    job_entry_release(&submission->first);
    free(submission);
}

static int submission_check(struct submission *submission)
{
    struct sweep_run *run = submission->run;
    struct json_object *sweep = json_get(submission->call->parameters, "sweep");
    JSON_AUTO struct json_object *spec = NULL;
    size_t culprit;
    int result;

    submission->sweep_wrong = true;
    result = sweep_points_read(sweep, submission->points_max, &run->sweep.values,
                               &submission->fault, &submission->error);
    if (result < 0)
        return result;
    result = sweep_points_complete(run->sweep.values, run->sweep.spec, &submission->fault,
                                   &submission->error);
    if (result < 0)
        return result;
    submission->sweep_wrong = false;
    run->sweep.points = sweep_points_count(run->sweep.values);
    result = sweep_points_check(run->sweep.values, run->sweep.spec, submission->priority_max,
                                &submission->fault, &submission->error);
    if (result == 0)
        result = sweep_point_spec(run->sweep.values, 0, run->sweep.spec, &spec, &submission->error);
    if (result == 0)
        result = job_entry_prepare(spec, run->sweep.uid, &submission->first, &submission->fault,
                                   &submission->error);
    if (result == 0 && *submission->first.snapshot) {
        submission->fault = (struct job_spec_fault){.path = "snapshot.id"};
        result = code_snapshot_check(submission->call->daemon->state_directory, run->sweep.uid,
                                     submission->first.snapshot, &submission->error);
    }
    if (result == 0) /* {"index": …} has no meaning here */
        result = dependencies_check(&submission->first.submission.dependencies, 1, &culprit,
                                    &submission->error);
    return result;
}

static void on_submission_work(uv_work_t *work)
{
    struct submission *submission = work->data;

    if (!submission->run->sweep.user)
        submission->run->sweep.user = job_user_name(submission->run->sweep.uid);
    submission->result = submission_check(submission);
}

static int submission_store(struct store_connection *connection, void *data, struct error *error)
{
    struct submission *submission = data;
    const struct job_submission *first = &submission->first.submission;
    const struct checkpoint_source source = {.job = submission->first.weights_job,
                                             .step = submission->first.weights_step,
                                             .asker = first->uid};
    struct stored_checkpoint found;
    int source_result = source.job ? checkpoint_source_find(connection, &source, &found, error) : 0;

    if (source_result < 0)
        return source_result;
    for (size_t i = 0; i < first->dependencies.count; i++) {
        const struct dependency *dependency = &first->dependencies.list[i];
        enum job_state state;
        int result =
            dependency_state(connection, dependency->on_job, dependency->condition, &state, error);

        if (result < 0)
            return result;
    }
    return sweep_insert(connection, &submission->run->sweep, submission->first.name, first->kind,
                        first->priority, error);
}

struct sweep_reply {
    struct call *call;
    int64_t first_job, points;
};

static void on_sweep_ready(void *data, int result, const struct error *error)
{
    struct sweep_reply sweep = *(struct sweep_reply *)data;
    struct json_object *reply = json_object_new_object();

    (void)result; /* the sweep is durable in any case */
    (void)error;
    free(data);
    json_set_int(reply, "sweep", sweep.first_job);
    json_set_int(reply, "first", sweep.first_job);
    json_set_int(reply, "count", sweep.points);
    call_reply(sweep.call, reply);
}

static void refuse_submission(struct submission *submission)
{
    struct call *call = submission->call;
    struct json_object *parameters = json_object_new_object();
    const char *path = submission->fault.path;
    bool missing = submission->result == -ENOENT;
    bool sweep_wrong = submission->sweep_wrong;
    struct error error = submission->error;

    json_set_string(parameters, "path", missing ? "after" : *path ? path : NULL);
    if (missing)
        json_set(parameters, "job", NULL);
    else if (!sweep_wrong)
        json_set_string(parameters, "nearest",
                        *submission->fault.nearest ? submission->fault.nearest : NULL);
    submission_free(submission);
    call_fail(call,
              missing       ? "InvalidDependency"
              : sweep_wrong ? "InvalidSweep"
                            : "InvalidSpec",
              parameters, "%s", error.text);
}

static void on_submission_stored(void *data, int result, const struct error *error)
{
    struct submission *submission = data;
    struct call *call = submission->call;
    struct sweep_run *run;
    struct sweep_reply *reply;

    if (result == -ENOENT || result == -ERROR_STALE_FILE) {
        submission->result = result;
        submission->error = *error;
        if (result == -ERROR_STALE_FILE)
            submission->fault = (struct job_spec_fault){.path = "weights.job"};
        refuse_submission(submission);
        return;
    }
    if (result < 0) {
        submission_free(submission);
        call_fail_storage(call, error);
        return;
    }
    reply = memory_allocate(sizeof *reply);
    run = TAKE_POINTER(submission->run);
    submission_free(submission);
    *reply = (struct sweep_reply){
        .call = call, .first_job = run->sweep.first_job, .points = run->sweep.points};
    sweeps_add(call->daemon, run, on_sweep_ready, reply);
}

static void on_submission_checked(uv_work_t *work, int status)
{
    struct submission *submission = work->data;
    struct call *call = submission->call;
    int64_t points, dependencies;

    (void)status; /* never cancelled */
    call_set_user(call, submission->run->sweep.user);
    if (submission->result < 0) {
        refuse_submission(submission);
        return;
    }
    points = submission->run->sweep.points;
    dependencies = points * (int64_t)submission->first.submission.dependencies.count;
    if (quota_exceeded(call, points) || quota_dependencies_exceeded(call, dependencies)) {
        submission_free(submission);
        return;
    }
    quota_claim_begin(&submission->claim, submission->run->sweep.uid, points);
    submission->claim.dependencies = dependencies;
    store_write(call->daemon->store, submission_store, on_submission_stored, submission);
}

static void handle_submit_sweep(struct call *call)
{
    struct submission *submission = memory_zero(sizeof *submission);

    submission->run = memory_zero(sizeof *submission->run);
    submission->work.data = submission;
    submission->call = call;
    submission->points_max = call->daemon->config.sweep_points_max;
    submission->priority_max = quota_priority_max(call);
    submission->run->sweep.uid = call->peer.uid;
    submission->run->sweep.held = -1;
    submission->run->sweep.spec = json_object_get(json_get(call->parameters, "spec"));
    submission->run->sweep.submitted = clock_now();
    submission->run->sweep.user = memory_copy_text(call_user(call));
    daemon_queue_work(call->daemon, &submission->work, on_submission_work, on_submission_checked);
}

/* Strangers see what Submit shows. */
METHOD(SubmitSweep, handle_submit_sweep, ACCESS_ANYBODY, METHOD_SHORT);

/* ---- ShowSweep, CancelSweep, HoldSweep, ReleaseSweep: id → the sweep ------------------------- */

struct sweep_query {
    struct call *call;
    int64_t id;
    bool changes, had_ended; /* the call changes the sweep; nothing was left to change */
    const char *nothing;     /* the error's sentence in that case */
    struct json_object *sweep, *spec, *axes;
};

static int read_sweep(struct store_connection *connection, void *data, struct error *error)
{
    struct sweep_query *query = data;

    return sweep_row_find(connection, query->id, &query->sweep,
                          query->changes ? NULL : &query->spec,
                          query->changes ? NULL : &query->axes, error);
}

static void on_sweep_read(void *data, int result, const struct error *error)
{
    struct sweep_query query = *(struct sweep_query *)data;
    struct json_object *reply = json_object_new_object();

    free(data);
    if (result < 0) {
        json_object_put(query.sweep);
        json_object_put(query.spec);
        json_object_put(query.axes);
        json_object_put(reply);
        if (result == -ERROR_NO_SUCH_JOB)
            call_fail_no_sweep(query.call, query.id);
        else
            call_fail_storage(query.call, error);
        return;
    }
    if (query.had_ended) {
        json_object_put(query.sweep);
        json_object_put(reply);
        call_fail_state(query.call, query.id, job_state_to_string(JOB_DONE), "%s", query.nothing);
        return;
    }
    json_set(reply, "sweep", query.sweep);
    if (!query.changes) { /* empty objects if the row is damaged */
        json_set(reply, "spec", query.spec ? query.spec : json_object_new_object());
        json_set(reply, "axes", query.axes ? query.axes : json_object_new_object());
    }
    call_reply(query.call, reply);
}

static void on_sweep_changed(void *data, int result, const struct error *error)
{
    struct sweep_query *query = data;
    struct call *call = query->call;

    if (result < 0 && result != -ERROR_NO_SUCH_JOB) {
        free(query);
        call_fail_storage(call, error);
        return;
    }
    query->had_ended = result == -ERROR_NO_SUCH_JOB;
    store_read(call->daemon->store, read_sweep, on_sweep_read, query);
}

/* `nothing` is the error's sentence if there is nothing to change; NULL: the call only reads. */
static struct sweep_query *query_new(struct call *call, const char *nothing)
{
    struct sweep_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->id = json_get_int(call->parameters, "id", 0);
    query->changes = nothing != NULL;
    query->nothing = nothing;
    return query;
}

static void handle_show_sweep(struct call *call)
{
    struct sweep_query *query = query_new(call, NULL);

    if (query)
        store_read(call->daemon->store, read_sweep, on_sweep_read, query);
}

METHOD(ShowSweep, handle_show_sweep, ACCESS_SWEEP_OWNER, METHOD_LONG);

static void handle_cancel_sweep(struct call *call)
{
    struct sweep_query *query =
        query_new(call, "every job of the sweep has ended already; there is nothing to cancel");

    if (query)
        sweep_cancel(call->daemon, query->id, on_sweep_changed, query);
}

METHOD(CancelSweep, handle_cancel_sweep, ACCESS_SWEEP_OWNER, METHOD_SHORT);

static void begin_holding(struct call *call, bool held)
{
    struct sweep_query *query =
        query_new(call, "no job of the sweep is queued; only queued jobs are held and released");

    if (query)
        sweep_hold(call->daemon, query->id, held, on_sweep_changed, query);
}

static void handle_hold_sweep(struct call *call)
{
    begin_holding(call, true);
}

METHOD(HoldSweep, handle_hold_sweep, ACCESS_SWEEP_OWNER, METHOD_SHORT);

static void handle_release_sweep(struct call *call)
{
    begin_holding(call, false);
}

METHOD(ReleaseSweep, handle_release_sweep, ACCESS_SWEEP_OWNER, METHOD_SHORT);

/* ---- Sweeps: page → sweeps, newest first ----------------------------------------------------- */

struct sweeps_query {
    struct call *call;
    int64_t before, limit;
    struct json_object *sweeps;
};

static int read_sweeps(struct store_connection *connection, void *data, struct error *error)
{
    struct sweeps_query *query = data;

    return sweep_rows_list(connection, query->before, query->limit, query->sweeps, error);
}

static void on_sweeps(void *data, int result, const struct error *error)
{
    struct sweeps_query query = *(struct sweeps_query *)data;
    size_t count = json_object_array_length(query.sweeps);
    struct json_object *reply;

    free(data);
    if (result < 0) {
        json_object_put(query.sweeps);
        call_fail_storage(query.call, error);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct json_object *sweep = json_object_array_get_idx(query.sweeps, i);

        if (!call_sees(query.call, (uid_t)json_get_int(sweep, "uid", 0)))
            json_set_string(sweep, "name", "");
    }
    reply = json_object_new_object();
    json_set(reply, "sweeps", query.sweeps);
    if ((int64_t)count == query.limit)
        json_set_int(reply, "next",
                     json_get_int(json_object_array_get_idx(query.sweeps, count - 1), "id", 0));
    else
        json_set(reply, "next", NULL);
    call_reply(query.call, reply);
}

static void handle_sweeps(struct call *call)
{
    struct sweeps_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->before = json_get_int(call->parameters, "before", INT64_MAX);
    query->limit = json_get_int(call->parameters, "limit", LIST_LIMIT);
    if (query->limit < 1)
        query->limit = 1;
    if (query->limit > LIST_LIMIT_MAX)
        query->limit = LIST_LIMIT_MAX;
    query->sweeps = json_object_new_array();
    store_read(call->daemon->store, read_sweeps, on_sweeps, query);
}

/* Strangers see the users of others' sweeps, their numbers of points, and since when they exist. */
METHOD(Sweeps, handle_sweeps, ACCESS_ANYBODY, METHOD_LONG);
