/* profile.c: Profile: how the latest profiled attempt of a job spent its time, as the trainee
 * reported it in a `profile` record. */
#include "base/memory.h"
#include "daemon/methods/methods.h"
#include "daemon/store/event_rows.h"

#include <stdlib.h>

struct profile_query {
    struct call *call;
    int64_t id, attempt;
    struct json_object *profile; /* NULL: there is none */
};

static int read_profile(struct store_connection *connection, void *data, struct error *error)
{
    struct profile_query *query = data;

    return event_profile_read(connection, query->id, &query->attempt, &query->profile, error);
}

static void on_profile(void *data, int result, const struct error *error)
{
    struct profile_query query = *(struct profile_query *)data;
    struct json_object *reply = json_object_new_object();

    free(data);
    if (result < 0) {
        json_object_put(reply);
        call_fail_storage(query.call, error);
        return;
    }
    if (!query.profile) {
        json_set_int(reply, "id", query.id);
        call_fail(
            query.call, "NoSuchProfile", reply,
            "job %lld has no profile; one is made at the end of a run that was submitted with "
            "train.profile",
            (long long)query.id);
        return;
    }
    json_set_int(reply, "attempt", query.attempt);
    json_set(reply, "profile", query.profile);
    call_reply(query.call, reply);
}

static void handle_profile(struct call *call)
{
    struct profile_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->id = json_get_int(call->parameters, "id", 0);
    store_read(call->daemon->store, read_profile, on_profile, query);
}

METHOD(Profile, handle_profile, ACCESS_OWNER, METHOD_LONG);
