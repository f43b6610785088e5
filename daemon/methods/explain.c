/* explain.c: Explain and Predict: why a job is where it is, and where a job would run. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/jobs/candidates.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/predict.h"
#include "daemon/methods/decision_view.h"
#include "daemon/methods/job_view.h"
#include "daemon/methods/methods.h"
#include "daemon/methods/quota.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/attempt_rows.h"
#include "daemon/store/command_history_rows.h"
#include "daemon/store/job_edit_rows.h"
#include "daemon/store/job_insert.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/plan_rows.h"
#include "daemon/store/store.h"
#include "proto/job_spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- Explain: id → the job, its decisions, and one made now if it waits --------------------- */

struct explain_query {
    struct call *call;
    int64_t id;
    struct json_object *job, *decisions, *edits; /* made on the storage thread */
};

/* Adds the decision that started the attempt, and the one that took its device away, if there was
 * one. Takes `decision` over. */
static void add_attempt(void *data, int64_t attempt, struct json_object *decision)
{
    struct explain_query *query = data;
    struct json_object *leaves = json_object_get(json_get(decision, "leaves"));

    if (json_get(decision, "verdict"))
        json_object_array_add(query->decisions, decision_view(decision, attempt, false));
    else
        json_object_put(decision);
    if (leaves)
        json_object_array_add(query->decisions, decision_view(leaves, attempt, false));
}

/* The latest decision, where it did not start an attempt: why it waits, or could not run. */
static int read_latest(struct store_connection *connection, struct explain_query *query,
                       struct error *error)
{
    size_t count = json_object_array_length(query->decisions);
    struct json_object *decision, *last = NULL;
    int result = job_decision_read(connection, query->id, &decision, error);

    if (count)
        last = json_object_array_get_idx(query->decisions, count - 1);
    if (decision && json_get_double(decision, "time", 0) > json_get_double(last, "time", 0))
        json_object_array_add(query->decisions, decision_view(decision, 0, false));
    else
        json_object_put(decision);
    return result;
}

static int read_explain(struct store_connection *connection, void *data, struct error *error)
{
    struct explain_query *query = data;
    int result = job_row_find(connection, query->id, &query->job, error);

    if (result == 0)
        result = attempt_decisions_read(connection, query->id, add_attempt, query, error);
    if (result == 0)
        result = read_latest(connection, query, error);
    if (result == 0)
        result = job_edits_read(connection, query->id, query->edits, error);
    return result;
}

/* The explanation of a waiting job as of now; NULL: the job does not wait. */
static struct json_object *explain_now(struct daemon *daemon, int64_t id, struct json_object *job)
{
    const char *wait_reason = json_get_string(job, "wait_reason", NULL);
    struct json_object *decision = jobs_explain(daemon->jobs, id);

    if (decision)
        return decision_view(decision, 0, true);
    if (!wait_reason)
        return NULL;
    return decision_view_undecided(wait_reason, json_get_string(job, "reason", NULL));
}

static void on_explain(void *data, int result, const struct error *error)
{
    struct explain_query query = *(struct explain_query *)data;
    struct json_object *reply;

    free(data);
    if (result < 0) {
        json_object_put(query.job);
        json_object_put(query.decisions);
        json_object_put(query.edits);
        call_fail_job(query.call, query.id, error);
        return;
    }
    reply = json_object_new_object();
    job_view_add_progress(query.call->daemon, query.job);
    json_set(reply, "now", explain_now(query.call->daemon, query.id, query.job));
    json_set(reply, "job", query.job);
    reply_keep_last(query.decisions, REPLY_LIST_BYTES);
    json_set(reply, "decisions", query.decisions);
    json_set(reply, "edits", query.edits);
    call_reply(query.call, reply);
}

static void handle_explain(struct call *call)
{
    struct explain_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->id = json_get_int(call->parameters, "id", 0);
    query->decisions = json_object_new_array();
    query->edits = json_object_new_array();
    store_read(call->daemon->store, read_explain, on_explain, query);
}

METHOD(Explain, handle_explain, ACCESS_OWNER, METHOD_LONG);

/* ---- Predict: a specification and its plan → the candidates ---------------------------------- */

struct predict_query {
    struct call *call;
    struct job_submission submission;
    char *needs;              /* owned */
    struct json_object *plan; /* the call's, else the stored one, owned */
    struct command_history_row runs[COMMAND_HISTORY_TYPES_MAX]; /* of a command */
    int run_count;
    struct job_spec_fault fault;
    bool refused; /* the specification is invalid */
};

static int read_predict(struct store_connection *connection, void *data, struct error *error)
{
    struct predict_query *query = data;
    struct json_object *parameters = query->call->parameters;
    JSON_AUTO struct json_object *normalised = NULL;
    int result =
        job_spec_normalise(json_get(parameters, "spec"), &normalised, &query->fault, error);

    if (result < 0) {
        query->refused = true;
        return result;
    }
    query->needs = job_needs_text(normalised);
    query->submission.needs = query->needs;
    query->submission.kind = job_spec_is_command(normalised) ? JOB_COMMAND : JOB_NATIVE;
    query->submission.priority = (int)json_get_int(normalised, "priority", 0);
    result = job_priority_check(query->submission.priority, quota_priority_max(query->call),
                                &query->fault, error);
    if (result < 0) {
        query->refused = true;
        return result;
    }
    if (query->submission.kind == JOB_COMMAND) {
        job_spec_command_digest(normalised, query->submission.plan_digest);
        query->run_count = command_history_read(connection, query->submission.uid,
                                                query->submission.plan_digest, query->runs, error);
        return query->run_count < 0 ? query->run_count : 0;
    }
    job_spec_plan_digest(normalised, query->submission.plan_digest);
    query->plan = json_object_get(json_get(parameters, "plan"));
    return query->plan ? 0
                       : plan_read(connection, query->submission.uid, query->submission.plan_digest,
                                   &query->plan, error);
}

static void predict_reply(struct predict_query *query)
{
    struct error error = {0};
    struct job_prediction prediction = {.submission = &query->submission,
                                        .plan = query->plan,
                                        .runs = query->runs,
                                        .run_count = query->run_count};
    struct json_object *reply, *decision = jobs_predict(query->call->daemon, &prediction, &error);
    JSON_AUTO struct json_object *view = NULL;

    if (!decision) {
        call_fail(query->call, "InternalError", NULL, "%s", error.text);
        return;
    }
    view = decision_view(decision, 0, true);
    reply = json_object_new_object();
    json_set(reply, "candidates", json_object_get(json_get(view, "candidates")));
    json_set_string(reply, "verdict", json_get_string(view, "verdict", ""));
    json_set_string(reply, "reason", json_get_string(view, "reason", NULL));
    json_set_string(reply, "needs", json_get_string(view, "needs", NULL));
    json_set_string(reply, "note", *prediction.note ? prediction.note : NULL);
    call_reply(query->call, reply);
}

static void predict_refuse(struct predict_query *query, const struct error *error)
{
    struct json_object *parameters = json_object_new_object();

    json_set_string(parameters, "path", *query->fault.path ? query->fault.path : NULL);
    json_set_string(parameters, "nearest", *query->fault.nearest ? query->fault.nearest : NULL);
    call_fail(query->call, "InvalidSpec", parameters, "%s", error->text);
}

/* Whether Submit would refuse the specification because of this machine's devices. */
static bool predict_refuses_devices(struct predict_query *query)
{
    const char *key = "device";
    struct error error = {0};

    if (jobs_check_devices(query->call->daemon, query->needs, &key, &error) == 0)
        return false;
    snprintf(query->fault.path, sizeof query->fault.path, "%s", key);
    error_prefix(&error, "%s", key);
    predict_refuse(query, &error);
    return true;
}

static void on_predict(void *data, int result, const struct error *error)
{
    struct predict_query *query = data;

    if (query->refused) {
        predict_refuse(query, error);
    } else if (result < 0) {
        call_fail_storage(query->call, error);
    } else if (!predict_refuses_devices(query)) {
        predict_reply(query);
    }
    json_object_put(query->plan);
    free(query->needs);
    free(query);
}

static void handle_predict(struct call *call)
{
    struct predict_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->submission.uid = call->peer.uid;
    store_read(call->daemon->store, read_predict, on_predict, query);
}

/* Strangers see when devices become free of others' jobs. */
METHOD(Predict, handle_predict, ACCESS_ANYBODY, METHOD_LONG);
