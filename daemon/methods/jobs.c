/* jobs.c: List, Show and Cancel. */
#include "daemon/jobs/jobs.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/methods/job_view.h"
#include "daemon/methods/methods.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/attempt_rows.h"
#include "daemon/store/command_history_rows.h"
#include "daemon/store/dependency_rows.h"
#include "daemon/store/event_rows.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/sweep_rows.h"
#include "daemon/store/transition_rows.h"
#include "daemon/work/command_history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIST_LIMIT = 100,      /* jobs per page if the caller names no limit */
    LIST_LIMIT_MAX = 1000, /* the most jobs per page */
    /* The most bytes of a reply of Show, beside a specification of SPEC_TEXT_MAX */
    SHOWN_PLAN_MAX = 192 * 1024,
    SHOWN_LIST_MAX = 96 * 1024 /* of each list */
};

/* ---- List: states, name, own, page → jobs, newest first -------------------------------------- */

struct list_query {
    struct call *call;
    const char *name; /* lent by the call; NULL: any */
    int64_t sweep;    /* 0: jobs of any sweep and of none */
    bool own;         /* the caller asks for their own jobs only */
    /* when filtering by name or sweep: otherwise it would tell which strangers' jobs match */
    bool own_only;
    char states[128]; /* ",queued,running,"; "": any */
    bool live_only;   /* no state of `states` is final, so the index of live jobs suffices */
    int64_t before;
    int64_t limit;
    struct json_object *jobs; /* made on the storage thread */
    size_t bytes;             /* of them */
    int64_t last;             /* of them */
    int64_t next;             /* 0: this was the last page */
};

/* Whether the caller may list the jobs of the sweep, which all belong to one user. Returns 1, 0 or
 * negative errno. */
static int may_list_sweep(struct store_connection *connection, const struct list_query *query,
                          struct error *error)
{
    uid_t uid;
    int result = sweep_owner_read(connection, query->sweep, &uid, error);

    return result > 0 ? call_sees(query->call, uid) : result;
}

static bool list_wants(void *data)
{
    struct list_query *query = data;
    bool wants = (int64_t)json_object_array_length(query->jobs) < query->limit &&
                 query->bytes <= REPLY_LIST_BYTES;

    if (!wants)
        query->next = query->last;
    return wants;
}

static void list_take(void *data, int64_t id, uid_t uid, struct json_object *job)
{
    struct list_query *query = data;
    size_t length;

    query->last = id;
    if (!call_sees(query->call, uid))
        job_view_hide(job);
    json_text(job, &length);
    query->bytes += length;
    json_object_array_add(query->jobs, job);
}

static int read_list(struct store_connection *connection, void *data, struct error *error)
{
    struct list_query *query = data;
    const struct job_list_query wanted = {
        .name = query->name,
        .sweep = query->sweep,
        .uid = query->own || (query->own_only && query->name) ? (int64_t)query->call->peer.uid : -1,
        .states = query->states,
        .live_only = query->live_only,
        .before = query->before,
    };
    bool asks_owner = query->own_only && !query->own && !query->name && query->sweep;
    int result = asks_owner ? may_list_sweep(connection, query, error) : 1;

    return result <= 0 ? result
                       : jobs_list_read(connection, &wanted, list_wants, list_take, query, error);
}

static void on_list(void *data, int result, const struct error *error)
{
    struct list_query *query = data;
    struct call *call = query->call;
    struct json_object *reply = json_object_new_object();

    for (size_t i = 0; i < json_object_array_length(query->jobs); i++) {
        struct json_object *job = json_object_array_get_idx(query->jobs, i);

        if (call_sees(call, (uid_t)json_get_int(job, "uid", 0)))
            job_view_add_progress(call->daemon, job);
    }
    json_set(reply, "jobs", query->jobs);
    if (query->next)
        json_set_int(reply, "next", query->next);
    else
        json_set(reply, "next", NULL);
    free(query);
    if (result < 0) {
        json_object_put(reply);
        call_fail_storage(call, error);
    } else {
        call_reply(call, reply);
    }
}

static void handle_list(struct call *call)
{
    struct list_query *query = memory_zero(sizeof *query);
    struct json_object *states = json_get(call->parameters, "states");

    query->call = call;
    query->name = json_get_string(call->parameters, "name", NULL);
    query->sweep = json_get_int(call->parameters, "sweep", 0);
    query->own = json_get_bool(call->parameters, "own", false);
    query->before = json_get_int(call->parameters, "before", INT64_MAX);
    query->limit = json_get_int(call->parameters, "limit", LIST_LIMIT);
    if (query->limit < 1)
        query->limit = 1;
    if (query->limit > LIST_LIMIT_MAX)
        query->limit = LIST_LIMIT_MAX;
    query->own_only = !call_sees(call, (uid_t)-1); /* no user has this id */
    query->jobs = json_object_new_array();
    query->live_only = states != NULL;
    for (size_t i = 0; states && i < json_object_array_length(states); i++) {
        const char *state = json_object_get_string(json_object_array_get_idx(states, i));

        if (job_state_is_final(job_state_from_string(state)))
            query->live_only = false;
        if (strlen(query->states) + strlen(state) + 3 > sizeof query->states)
            continue; /* no room is left only if a state is named twice */
        if (!*query->states)
            strcpy(query->states, ",");
        strcat(strcat(query->states, state), ",");
    }
    store_read(call->daemon->store, read_list, on_list, query);
}

/* Strangers see what job_view_hide() leaves. */
METHOD(List, handle_list, ACCESS_ANYBODY, METHOD_LONG);

/* ---- Show: id → the job with its specification, plan, attempts and transitions --------------- */

struct show_query {
    struct call *call;
    int64_t id;
    struct json_object *reply; /* made on the storage thread */
};

static int read_spec_and_plan(struct store_connection *connection, struct show_query *query,
                              struct error *error)
{
    struct json_object *spec, *plan;
    int result = job_spec_read(connection, query->id, &spec, &plan, error);

    if (result < 0)
        return result;
    json_set(query->reply, "spec", spec ? spec : json_object_new_object()); /* the row is damaged */
    json_set(query->reply, "plan", plan);
    return 0;
}

/* Adds a list to the reply, which `read` fills. */
static int read_list_of(struct store_connection *connection, struct show_query *query,
                        const char *key,
                        int (*read)(struct store_connection *connection, int64_t job,
                                    struct json_object *list, struct error *error),
                        struct error *error)
{
    struct json_object *list = json_object_new_array();

    json_set(query->reply, key, list);
    return read(connection, query->id, list, error);
}

static struct json_object *describe_learnt(const struct command_history_row *row)
{
    const struct command_history *history = &row->history;
    struct json_object *learnt = json_object_new_object();
    bool ran = history->runs > 0;

    json_set_string(learnt, "device_type", row->device_type);
    json_set_int(learnt, "runs", history->runs);
    json_set_double(learnt, "seconds", ran ? history->seconds : NAN);
    json_set_double(learnt, "deviation",
                    history->runs > 1 ? sqrt(history->squares / (double)(history->runs - 1)) : NAN);
    json_set_double(learnt, "cores", ran ? history->cores : NAN);
    json_set(learnt, "memory",
             history->memory ? json_object_new_int64((int64_t)history->memory) : NULL);
    json_set(learnt, "device_memory",
             history->device_memory ? json_object_new_int64((int64_t)history->device_memory)
                                    : NULL);
    return learnt;
}

static int read_learnt(struct store_connection *connection, struct show_query *query,
                       struct error *error)
{
    struct command_history_row rows[COMMAND_HISTORY_TYPES_MAX];
    struct json_object *list;
    char digest[JOB_DIGEST_SIZE];
    uid_t uid;
    int result = job_command_read(connection, query->id, &uid, digest, error);

    if (result <= 0)
        return result;
    result = command_history_read(connection, uid, digest, rows, error);
    list = json_object_new_array();
    for (int i = 0; i < result; i++)
        json_object_array_add(list, describe_learnt(&rows[i]));
    json_set(query->reply, "learnt", list);
    return result < 0 ? result : 0;
}

static int read_show(struct store_connection *connection, void *data, struct error *error)
{
    struct show_query *query = data;
    struct json_object *job = NULL;
    int result = job_row_find(connection, query->id, &job, error);

    json_set(query->reply, "job", job);
    if (result == 0)
        result = read_spec_and_plan(connection, query, error);
    if (result == 0)
        result = read_list_of(connection, query, "attempts", attempts_read, error);
    if (result == 0)
        result = read_list_of(connection, query, "transitions", transitions_read, error);
    if (result == 0)
        result = read_list_of(connection, query, "dependencies", dependencies_read_rows, error);
    if (result == 0)
        result = read_list_of(connection, query, "warnings", event_warnings_read, error);
    if (result == 0)
        result = read_learnt(connection, query, error);
    return result;
}

/* Shortens the reply until it fits: each list keeps its newest elements, and a plan that is too
 * large is left out. */
static void show_fit(struct json_object *reply)
{
    static const char *const lists[] = {"attempts", "transitions", "dependencies", "warnings"};
    size_t bytes = 0;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        reply_keep_last(json_get(reply, lists[i]), SHOWN_LIST_MAX);
    if (!reply_fits(json_get(reply, "plan"), &bytes, SHOWN_PLAN_MAX))
        json_set(reply, "plan", NULL);
}

static void on_show(void *data, int result, const struct error *error)
{
    struct show_query query = *(struct show_query *)data;

    free(data);
    if (result < 0) {
        json_object_put(query.reply);
        call_fail_job(query.call, query.id, error);
        return;
    }
    job_view_add_progress(query.call->daemon, json_get(query.reply, "job"));
    show_fit(query.reply);
    call_reply(query.call, query.reply);
}

static void handle_show(struct call *call)
{
    struct show_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->id = json_get_int(call->parameters, "id", 0);
    query->reply = json_object_new_object();
    store_read(call->daemon->store, read_show, on_show, query);
}

METHOD(Show, handle_show, ACCESS_OWNER, METHOD_LONG);

/* ---- Cancel: id → the job as it is stored then ----------------------------------------------- */

struct cancellation {
    struct call *call;
    int64_t id;
    bool had_ended;
    struct json_object *job;
};

static int read_cancelled(struct store_connection *connection, void *data, struct error *error)
{
    struct cancellation *cancellation = data;

    return job_row_find(connection, cancellation->id, &cancellation->job, error);
}

static bool has_ended(struct json_object *job)
{
    int state = job_state_from_string(json_get_string(job, "state", ""));

    return state >= 0 && job_state_is_final((enum job_state)state);
}

static void on_cancelled_read(void *data, int result, const struct error *error)
{
    struct cancellation cancellation = *(struct cancellation *)data;
    struct json_object *reply;

    free(data);
    /* while changes cannot be stored, the job's end cannot be read either */
    if (cancellation.had_ended && result != -ERROR_NO_SUCH_JOB &&
        (result < 0 || !has_ended(cancellation.job))) {
        call_fail(cancellation.call, "StorageFailed", NULL,
                  "job %lld was ended before, but that could not be stored yet; it is stored as "
                  "soon as that works%s%s",
                  (long long)cancellation.id, result < 0 ? ": " : "; the log of traind says why",
                  result < 0 ? error->text : "");
        json_object_put(cancellation.job);
    } else if (result < 0) {
        call_fail_job(cancellation.call, cancellation.id, error);
    } else if (cancellation.had_ended) {
        const char *state = json_get_string(cancellation.job, "state", "");

        call_fail_state(cancellation.call, cancellation.id, state,
                        "job %lld has ended already (%s); there is nothing to cancel",
                        (long long)cancellation.id, state);
        json_object_put(cancellation.job);
    } else {
        job_view_add_progress(cancellation.call->daemon, cancellation.job);
        reply = json_object_new_object();
        json_set(reply, "job", cancellation.job);
        call_reply(cancellation.call, reply);
    }
}

static void on_cancelled(void *data, int result, const struct error *error)
{
    struct cancellation *cancellation = data;
    struct call *call = cancellation->call;

    cancellation->had_ended = result == -ERROR_NO_SUCH_JOB;
    if (result < 0 && result != -ERROR_NO_SUCH_JOB) {
        free(cancellation);
        call_fail_storage(call, error);
        return;
    }
    /* the end that another call caused may not be on disk yet, so the read goes after it */
    if (cancellation->had_ended)
        store_write(call->daemon->store, read_cancelled, on_cancelled_read, cancellation);
    else
        store_read(call->daemon->store, read_cancelled, on_cancelled_read, cancellation);
}

static void handle_cancel(struct call *call)
{
    struct cancellation *cancellation = memory_zero(sizeof *cancellation);

    cancellation->call = call;
    cancellation->id = json_get_int(call->parameters, "id", 0);
    jobs_cancel(call->daemon, cancellation->id, "cancelled by its user", on_cancelled,
                cancellation);
}

METHOD(Cancel, handle_cancel, ACCESS_OWNER, METHOD_SHORT);
