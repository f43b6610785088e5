/* graph.c: Hold, Release, SetGroup and Groups. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/jobs/jobs.h"
#include "daemon/methods/methods.h"
#include "daemon/server/reply_size.h"
#include "daemon/store/group_rows.h"
#include "daemon/store/job_rows.h"
#include "proto/job_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_LIMITS_MAX = 1000 /* groups of one user that have a limit */
};

/* ---- Hold, Release: id → the job as it is stored then ---------------------------------------- */

struct holding {
    struct call *call;
    int64_t id;
    bool held, refused;
    struct json_object *job;
};

static int read_held(struct store_connection *connection, void *data, struct error *error)
{
    struct holding *holding = data;

    return job_row_find(connection, holding->id, &holding->job, error);
}

static void on_held_read(void *data, int result, const struct error *error)
{
    struct holding holding = *(struct holding *)data;
    struct json_object *reply;

    free(data);
    if (result < 0) {
        call_fail_job(holding.call, holding.id, error);
        return;
    }
    if (holding.refused) {
        const char *state = json_get_string(holding.job, "state", "");

        call_fail_state(holding.call, holding.id, state,
                        "job %lld is not queued but %s; only queued jobs are %s",
                        (long long)holding.id, state, holding.held ? "held" : "released");
        json_object_put(holding.job);
        return;
    }
    reply = json_object_new_object();
    json_set(reply, "job", holding.job);
    call_reply(holding.call, reply);
}

static void on_held(void *data, int result, const struct error *error)
{
    struct holding *holding = data;
    struct call *call = holding->call;

    holding->refused = result == -ERROR_NO_SUCH_JOB;
    if (result < 0 && result != -ERROR_NO_SUCH_JOB) {
        free(holding);
        call_fail_storage(call, error);
        return;
    }
    if (result == 0)
        watches_job_changed(&call->daemon->watches, holding->id);
    store_read(call->daemon->store, read_held, on_held_read, holding);
}

static void begin_holding(struct call *call, bool held)
{
    struct holding *holding = memory_zero(sizeof *holding);

    holding->call = call;
    holding->id = json_get_int(call->parameters, "id", 0);
    holding->held = held;
    jobs_hold(call->daemon, holding->id, held, on_held, holding);
}

static void handle_hold(struct call *call)
{
    begin_holding(call, true);
}

METHOD(Hold, handle_hold, ACCESS_OWNER, METHOD_SHORT);

static void handle_release(struct call *call)
{
    begin_holding(call, false);
}

METHOD(Release, handle_release, ACCESS_OWNER, METHOD_SHORT);

/* ---- SetGroup: name, limit → nothing --------------------------------------------------------- */

struct group_change {
    struct call *call;
    uid_t uid;
    const char *name; /* lent by the call */
    int64_t limit;    /* -1: none */
};

static int store_group(struct store_connection *connection, void *data, struct error *error)
{
    const struct group_change *change = data;

    return group_limit_store(connection, change->uid, change->name, change->limit, GROUP_LIMITS_MAX,
                             error);
}

static void on_group_stored(void *data, int result, const struct error *error)
{
    struct group_change change = *(struct group_change *)data;

    free(data);
    if (result == -EDQUOT) {
        call_fail(change.call, "QuotaExceeded", NULL, "%s", error->text);
        return;
    }
    if (result < 0) {
        call_fail_storage(change.call, error);
        return;
    }
    jobs_group_set(change.call->daemon, change.uid, change.name, change.limit);
    call_reply(change.call, json_object_new_object());
}

static void handle_set_group(struct call *call)
{
    struct group_change *change;
    struct error error = {0};
    const char *name = json_get_string(call->parameters, "name", "");
    int64_t limit = json_get_int(call->parameters, "limit", -1);

    if (job_spec_check_value("group", json_get(call->parameters, "name"), &error) < 0) {
        call_fail(call, "InvalidGroup", NULL, "%s", error.text);
        return;
    }
    if (json_get(call->parameters, "limit") && limit < 0) {
        call_fail(call, "InvalidGroup", NULL,
                  "the limit of a group is 0 or more (0: none of its jobs starts); null takes it "
                  "away");
        return;
    }
    change = memory_zero(sizeof *change);
    *change =
        (struct group_change){.call = call, .uid = call->peer.uid, .name = name, .limit = limit};
    store_write(call->daemon->store, store_group, on_group_stored, change);
}

/* Strangers see nothing, because every user has groups of their own. */
METHOD(SetGroup, handle_set_group, ACCESS_ANYBODY, METHOD_SHORT);

/* ---- Groups: nothing → groups ---------------------------------------------------------------- */

struct group_list {
    const struct call *call;
    struct json_object *groups;
    size_t bytes; /* of their text; groups beyond REPLY_LIST_BYTES are left out */
};

static void add_group(void *data, const struct job_group_view *view)
{
    struct group_list *list = data;
    struct json_object *group;

    if ((view->uid != list->call->peer.uid && !list->call->peer.admin) ||
        list->bytes > REPLY_LIST_BYTES)
        return;
    group = json_object_new_object();
    json_set_int(group, "uid", view->uid);
    json_set_string(group, "name", view->name);
    if (view->limit < 0)
        json_set(group, "limit", NULL);
    else
        json_set_int(group, "limit", view->limit);
    json_set_int(group, "running", (int64_t)view->running);
    json_set_int(group, "next", (int64_t)view->next);
    json_set_int(group, "waiting", (int64_t)view->waiting);
    if (reply_fits(group, &list->bytes, REPLY_LIST_BYTES))
        json_object_array_add(list->groups, group);
    else
        json_object_put(group);
}

static void handle_groups(struct call *call)
{
    struct group_list list = {.call = call, .groups = json_object_new_array()};
    struct json_object *reply = json_object_new_object();

    jobs_groups_each(call->daemon, add_group, &list);
    json_set(reply, "groups", list.groups);
    call_reply(call, reply);
}

/* Strangers see nothing; only an administrator sees the groups of all users. */
METHOD(Groups, handle_groups, ACCESS_ANYBODY, METHOD_LONG);
