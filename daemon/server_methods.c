/* server_methods.c: the table of methods and the check of who may call them, in one place. */
#include "daemon/server_methods.h"

#include "base/log.h"
#include "daemon/handlers.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Beside the access: what a stranger, who is neither owner nor admin, sees of others' jobs by it.
 */
static const struct method methods[] = {
    {"Ping", handle_ping, ACCESS_ANYBODY,
     METHOD_SHORT}, /* nothing but how many decisions there were */
    {"Submit", handle_submit, ACCESS_ANYBODY, METHOD_SHORT}, /* of a job in `after` its state */
    {"SubmitMany", handle_submit_many, ACCESS_ANYBODY, METHOD_SHORT},   /* as Submit */
    {"SubmitSweep", handle_submit_sweep, ACCESS_ANYBODY, METHOD_SHORT}, /* as Submit */
    {"Sweeps", handle_sweeps, ACCESS_ANYBODY, METHOD_LONG}, /* whose, how many points, since when */
    {"ShowSweep", handle_show_sweep, ACCESS_OWNER, METHOD_LONG},
    {"CancelSweep", handle_cancel_sweep, ACCESS_OWNER, METHOD_SHORT},
    {"HoldSweep", handle_hold_sweep, ACCESS_OWNER, METHOD_SHORT},
    {"ReleaseSweep", handle_release_sweep, ACCESS_OWNER, METHOD_SHORT},
    {"List", handle_list, ACCESS_ANYBODY, METHOD_LONG},   /* job_row_hide() */
    {"Queue", handle_queue, ACCESS_ANYBODY, METHOD_LONG}, /* how many come before one's own */
    {"Changes", handle_changes, ACCESS_ANYBODY,
     METHOD_STREAM}, /* that something has changed, not what */
    {"Devices", handle_devices, ACCESS_ANYBODY,
     false}, /* numbers of jobs and bytes; of other programs whose, and bytes */
    {"Drain", handle_drain, ACCESS_ADMIN, METHOD_SHORT},
    {"Undrain", handle_undrain, ACCESS_ADMIN, METHOD_SHORT},
    {"Predict", handle_predict, ACCESS_ANYBODY, METHOD_LONG}, /* when devices are free */
    {"Show", handle_show, ACCESS_OWNER, METHOD_LONG},
    {"Explain", handle_explain, ACCESS_OWNER, METHOD_LONG},
    {"Cancel", handle_cancel, ACCESS_OWNER, METHOD_SHORT},
    {"Remove", handle_remove, ACCESS_OWNER, METHOD_LONG},
    {"DiskUsage", handle_disk_usage, ACCESS_ANYBODY, METHOD_LONG}, /* of the caller's jobs */
    {"Hold", handle_hold, ACCESS_OWNER, METHOD_SHORT},
    {"Release", handle_release, ACCESS_OWNER, METHOD_SHORT},
    {"Pause", handle_pause, ACCESS_OWNER, METHOD_SHORT},
    {"Resume", handle_resume, ACCESS_OWNER, METHOD_SHORT},
    {"Requeue", handle_requeue, ACCESS_OWNER, METHOD_SHORT},
    {"Move", handle_move, ACCESS_OWNER, METHOD_SHORT},
    {"SetGroup", handle_set_group, ACCESS_ANYBODY,
     METHOD_SHORT}, /* nothing: groups are one's own */
    {"Groups", handle_groups, ACCESS_ANYBODY,
     METHOD_LONG}, /* nothing: one's own; an admin's: all */
    {"Watch", handle_watch, ACCESS_OWNER, METHOD_STREAM},
    {"Metrics", handle_metrics, ACCESS_OWNER, METHOD_STREAM},
    {"Logs", handle_logs, ACCESS_OWNER, METHOD_STREAM},
    {"Profile", handle_profile, ACCESS_OWNER, METHOD_LONG},
    {"Checkpoints", handle_checkpoints, ACCESS_OWNER, METHOD_LONG},
    {"ReadCheckpoint", handle_read_checkpoint, ACCESS_OWNER, METHOD_STREAM},
};

const struct method *method_find(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

/* ---- whose jobs are they? ----------------------------------------------------------------------
 */

struct ownership {
    struct call *call;
    struct json_object *ids; /* lent: an integer, or an array of them */
    size_t count;
    uid_t uid;
    bool admin;
    enum { ALL_OWNED, JOB_MISSING, JOB_FOREIGN } verdict;
    int64_t culprit; /* the first job that is missing or another's */
};

static int read_owners(struct store_connection *connection, void *data, struct error *error)
{
    struct ownership *ownership = data;

    for (size_t i = 0; i < ownership->count; i++) {
        sqlite3_stmt *statement = store_statement(
            connection,
            "SELECT uid FROM job WHERE id = ?1 UNION ALL SELECT uid FROM sweep WHERE first_job "
            "= (SELECT max(first_job) FROM sweep WHERE first_job <= ?1) AND ?1 < first_job + "
            "points LIMIT 1",
            error);
        struct json_object *id = json_object_is_type(ownership->ids, json_type_array)
                                     ? json_object_array_get_idx(ownership->ids, i)
                                     : ownership->ids;
        int result;

        if (!statement)
            return -EIO;
        store_bind_int(statement, 1, json_object_get_int64(id));
        result = store_statement_next(statement, error);
        if (result < 0)
            return result;
        if (result == 0) {
            ownership->verdict = JOB_MISSING;
            ownership->culprit = json_object_get_int64(id);
            return 0;
        }
        if (!ownership->admin && sqlite3_column_int64(statement, 0) != ownership->uid) {
            ownership->verdict = JOB_FOREIGN;
            ownership->culprit = json_object_get_int64(id);
            return 0;
        }
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
    ownership = calloc(1, sizeof *ownership);
    if (!ownership) {
        call_fail(call, "InternalError", NULL, "no memory left");
        return;
    }
    *ownership = (struct ownership){
        .call = call,
        .ids = ids,
        .count = json_object_is_type(ids, json_type_array) ? json_object_array_length(ids) : 1,
        .uid = call->peer.uid,
        .admin = call->peer.admin,
    };
    store_read(call->daemon->store, read_owners, on_owners, ownership);
}
