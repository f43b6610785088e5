/* code_snapshot.c: BeginSnapshot, KeepSnapshot and SnapshotDiff. The client copies the files
 * itself, as its user, between the first two: so what a user may not read gets into none, and
 * the daemon follows no path of a user. */
#include "daemon/folder/code_snapshot.h"

#include "base/memory.h"
#include "base/text.h"
#include "daemon/context/context.h"
#include "daemon/jobs/code_snapshots.h"
#include "daemon/methods/methods.h"
#include "daemon/store/code_snapshot_rows.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <stdlib.h>

struct upload {
    uv_work_t work;
    struct call *call;
    struct code_snapshot_limits limits;
    char path[PATH_MAX];
    int result;
    struct error error;
};

static void upload_fail(struct upload *upload)
{
    struct call *call = upload->call;

    if (upload->result == -EDQUOT)
        call_fail(call, "QuotaExceeded", NULL, "%s", upload->error.text);
    else if (upload->result == -EINVAL)
        call_fail(call, "NotPermitted", NULL, "%s", upload->error.text);
    else
        call_fail(call, "StorageFailed", NULL, "%s", upload->error.text);
    free(upload);
}

static void upload_start(struct call *call, uv_work_cb work, uv_after_work_cb after)
{
    struct upload *upload = memory_zero(sizeof *upload);

    upload->work.data = upload;
    upload->call = call;
    upload->limits = (struct code_snapshot_limits){call->daemon->config.bytes_per_snapshot,
                                                   call->daemon->config.snapshot_bytes_per_user};
    daemon_queue_work(call->daemon, &upload->work, work, after);
}

/* ---- BeginSnapshot --------------------------------------------------------------------------- */

static void begin_work(uv_work_t *work)
{
    struct upload *upload = work->data;
    int64_t bytes = json_get_int(upload->call->parameters, "bytes", 0);

    upload->result = code_snapshot_begin(upload->call->daemon->state_directory,
                                         upload->call->peer.uid, bytes < 0 ? 0 : (uint64_t)bytes,
                                         &upload->limits, upload->path, &upload->error);
}

static void on_begun(uv_work_t *work, int status)
{
    struct upload *upload = work->data;
    struct json_object *reply;

    (void)status; /* never cancelled */
    if (upload->result < 0) {
        upload_fail(upload);
        return;
    }
    reply = json_object_new_object();
    json_set_string(reply, "path", upload->path);
    call_reply(upload->call, reply);
    free(upload);
}

static void handle_begin(struct call *call)
{
    upload_start(call, begin_work, on_begun);
}

/* Strangers see nothing. */
METHOD(BeginSnapshot, handle_begin, ACCESS_ANYBODY, METHOD_LONG);

/* ---- KeepSnapshot ---------------------------------------------------------------------------- */

static void keep_work(uv_work_t *work)
{
    struct upload *upload = work->data;
    struct json_object *parameters = upload->call->parameters;

    upload->result =
        code_snapshot_keep(upload->call->daemon->state_directory, upload->call->peer.uid,
                           json_get_string(parameters, "path", ""),
                           json_get_string(parameters, "id", ""), &upload->limits, &upload->error);
}

static void on_kept(uv_work_t *work, int status)
{
    struct upload *upload = work->data;

    (void)status; /* never cancelled */
    if (upload->result < 0) {
        upload_fail(upload);
        return;
    }
    code_snapshots_tidy_hourly(upload->call->daemon);
    call_reply(upload->call, json_object_new_object());
    free(upload);
}

static void handle_keep(struct call *call)
{
    upload_start(call, keep_work, on_kept);
}

/* Strangers see nothing. */
METHOD(KeepSnapshot, handle_keep, ACCESS_ANYBODY, METHOD_LONG);

/* ---- SnapshotDiff ---------------------------------------------------------------------------- */

struct diff_query {
    struct call *call;
    char *diff; /* NULL: the job has no snapshot */
    bool complete;
};

static int diff_read(struct store_connection *connection, void *data, struct error *error)
{
    struct diff_query *query = data;
    struct code_snapshot_use use;
    int result = code_snapshot_of_job_read(
        connection, json_get_int(query->call->parameters, "id", 0), &use, error);

    return result < 0 || !*use.id
               ? result
               : code_snapshot_read_diff(query->call->daemon->state_directory, use.uid, use.id,
                                         &query->diff, &query->complete, error);
}

static void on_diff(void *data, int result, const struct error *error)
{
    struct diff_query query = *(struct diff_query *)data;
    struct json_object *reply = json_object_new_object();
    int64_t id = json_get_int(query.call->parameters, "id", 0);

    free(data);
    if (result < 0) {
        free(query.diff);
        json_object_put(reply);
        call_fail_storage(query.call, error);
        return;
    }
    if (!query.diff) {
        json_set_int(reply, "id", id);
        call_fail(query.call, "NoSuchSnapshot", reply,
                  "job %lld runs no snapshot; --snapshot of run and submit takes one",
                  (long long)id);
        return;
    }
    json_set_string(reply, "diff", text_make_utf8(query.diff));
    json_set_bool(reply, "complete", query.complete);
    free(query.diff);
    call_reply(query.call, reply);
}

static void handle_diff(struct call *call)
{
    struct diff_query *query = memory_zero(sizeof *query);

    query->call = call;
    store_read(call->daemon->store, diff_read, on_diff, query);
}

METHOD(SnapshotDiff, handle_diff, ACCESS_OWNER, METHOD_LONG);
