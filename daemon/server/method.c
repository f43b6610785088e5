/* method.c: see method.h. This is the only place that checks who may call a method. */
#include "daemon/server/method.h"

#include "base/memory.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/store.h"
#include "daemon/store/sweep_rows.h"

#include <stdlib.h>
#include <string.h>

const struct method *method_find(const struct method_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->methods[i]->name, name) == 0)
            return table->methods[i];
    return NULL;
}

/* ---- owners ---------------------------------------------------------------------------------- */

struct ownership {
    struct call *call;
    struct json_object *ids; /* borrowed: an integer, or an array of integers */
    size_t count;
    uid_t uid;
    bool admin;
    enum { ALL_OWNED, JOB_MISSING, JOB_FOREIGN } verdict;
    int64_t culprit; /* the first job that does not exist or belongs to another user */
};

static int read_owners(struct store_connection *connection, void *data, struct error *error)
{
    struct ownership *ownership = data;

    for (size_t i = 0; i < ownership->count; i++) {
        struct json_object *id = json_object_is_type(ownership->ids, json_type_array)
                                     ? json_object_array_get_idx(ownership->ids, i)
                                     : ownership->ids;
        uid_t owner;
        int result = ownership->call->method->access == ACCESS_SWEEP_OWNER
                         ? sweep_owner_read(connection, json_object_get_int64(id), &owner, error)
                         : job_owner_read(connection, json_object_get_int64(id), &owner, error);

        if (result < 0)
            return result;
        if (result > 0 && (ownership->admin || owner == ownership->uid))
            continue;
        ownership->verdict = result == 0 ? JOB_MISSING : JOB_FOREIGN;
        ownership->culprit = json_object_get_int64(id);
        break;
    }
    return 0;
}

static void on_owners(void *data, int result, const struct error *error)
{
    struct ownership ownership = *(struct ownership *)data;
    struct call *call = ownership.call;

    free(data);
    if (result < 0)
        call_fail_storage(call, error);
    else if (ownership.verdict == JOB_MISSING && call->method->access == ACCESS_SWEEP_OWNER)
        call_fail_no_sweep(call, ownership.culprit);
    else if (ownership.verdict == JOB_MISSING)
        call_fail_no_job(call, ownership.culprit);
    else if (ownership.verdict == JOB_FOREIGN)
        call_fail(call, "NotPermitted", NULL,
                  "job %lld belongs to another user; its owner or an administrator may do this",
                  (long long)ownership.culprit);
    else
        call->method->handle(call);
}

void method_run(struct call *call)
{
    struct ownership *ownership;
    struct json_object *ids;

    if (!call->method) {
        call_fail(call, "InternalError", NULL, "this traind does not serve %s",
                  call->message.method);
        return;
    }
    if (call->method->access == ACCESS_ANYBODY) {
        call->method->handle(call);
        return;
    }
    if (call->method->access == ACCESS_ADMIN) {
        if (call->peer.admin)
            call->method->handle(call);
        else
            call_fail(call, "NotPermitted", NULL, "only an administrator may do this");
        return;
    }
    ids = json_get(call->parameters, "id");
    if (!ids)
        ids = json_get(call->parameters, "ids");
    ownership = memory_zero(sizeof *ownership);
    *ownership = (struct ownership){
        .call = call,
        .ids = ids,
        .count = json_object_is_type(ids, json_type_array) ? json_object_array_length(ids) : 1,
        .uid = call->peer.uid,
        .admin = call->peer.admin,
    };
    store_read(call->daemon->store, read_owners, on_owners, ownership);
}
