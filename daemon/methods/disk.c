/* disk.c: Remove and DiskUsage. Remove removes ended jobs, or only their checkpoints. DiskUsage
 * lists how much disk space the caller's jobs take, the largest first; an administrator sees all
 * users' jobs. */
#include "base/memory.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/jobs/job_remove.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/methods/methods.h"
#include "daemon/store/checkpoint_reads.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* ---- Remove ---------------------------------------------------------------------------------- */

struct remove_call {
    struct job_removal removal;
    struct call *call;
    int64_t ids[]; /* the removal's `ids` points here */
};

static void on_removed(struct job_removal *removal, int result, const struct error *error)
{
    struct call *call = removal->data;
    struct json_object *reply;

    if (result == -EBUSY) {
        call_fail_state(call, removal->rows.refused,
                        job_state_to_string(removal->rows.refused_state), "%s", error->text);
    } else if (result < 0) {
        call_fail_storage(call, error);
    } else {
        reply = json_object_new_object();
        json_set_int(reply, "removed", (int64_t)removal->rows.found);
        call_reply(call, reply);
    }
    free(removal); /* it is the first member of struct remove_call */
}

static void handle_remove(struct call *call)
{
    struct json_object *ids = json_get(call->parameters, "ids");
    size_t count = json_object_array_length(ids);
    struct remove_call *remove;
    const struct job *job;

    if (count > JOBS_REMOVED_MAX) {
        call_fail(call, "NotPermitted", NULL, "one call removes at most %d jobs", JOBS_REMOVED_MAX);
        return;
    }
    remove = memory_zero(sizeof *remove + count * sizeof *remove->ids);
    for (size_t i = 0; i < count; i++) {
        remove->ids[i] = json_object_get_int64(json_object_array_get_idx(ids, i));
        job = job_table_find(call->daemon->jobs->table, remove->ids[i]);
        if (job) {
            call_fail_state(call, job->id, job_state_to_string((enum job_state)job->state),
                            "job %lld has not ended, or its processes are still to go; cancel it "
                            "first, nothing was removed",
                            (long long)job->id);
            free(remove);
            return;
        }
    }
    remove->removal = (struct job_removal){
        .rows = {.ids = remove->ids,
                 .count = count,
                 .checkpoints_only = json_get_bool(call->parameters, "checkpoints", false)},
        .done = on_removed,
        .data = call,
    };
    jobs_remove(call->daemon, &remove->removal);
}

METHOD(Remove, handle_remove, ACCESS_OWNER, METHOD_LONG);

/* ---- DiskUsage ------------------------------------------------------------------------------- */

enum { JOBS_TOLD = 100 };

struct usage {
    struct call *call;
    struct json_object *reply; /* owned */
};

static int64_t file_bytes(const char *directory, const char *name)
{
    char path[PATH_MAX];
    struct stat status;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return stat(path, &status) == 0 ? (int64_t)status.st_blocks * 512 : 0;
}

/* The disk space of the logs of a job's attempts. This runs on the store's reader, and a job may
 * have a hundred attempts, so no file is opened. The user cannot replace the folder, and no link is
 * followed. */
static int64_t log_bytes(const char *directory, int64_t job, int64_t attempts)
{
    int64_t bytes = 0;

    for (int64_t attempt = 0; attempt <= attempts; attempt++) {
        char folder[PATH_MAX], path[PATH_MAX + sizeof "/log"];
        struct stat status;

        attempt_folder_path(folder, directory, job, attempt);
        snprintf(path, sizeof path, "%s/log", folder);
        if (lstat(path, &status) == 0)
            bytes += (int64_t)status.st_blocks * 512;
    }
    return bytes;
}

static void usage_add(void *data, const struct checkpoint_usage *held)
{
    struct usage *usage = data;
    struct json_object *job = json_object_new_object();

    json_set_int(job, "id", held->job);
    json_set_string(job, "name", held->name);
    json_set_string(job, "user", held->user);
    json_set_string(job, "state", held->state);
    if (!isnan(held->ended))
        json_set_double(job, "ended", held->ended);
    json_set_int(job, "checkpoints", held->count);
    json_set_int(job, "bytes", held->bytes);
    json_set_int(job, "log_bytes",
                 log_bytes(usage->call->daemon->state_directory, held->job, held->attempts));
    json_object_array_add(json_get(usage->reply, "jobs"), job);
}

static int jobs_read(struct store_connection *connection, struct usage *usage, struct error *error)
{
    const struct call *call = usage->call;
    int64_t count, bytes;
    int result;

    json_set(usage->reply, "jobs", json_object_new_array());
    result = checkpoint_usage_read(connection, call->peer.admin ? -1 : (int64_t)call->peer.uid,
                                   JOBS_TOLD, usage_add, usage, &count, &bytes, error);
    json_set_int(usage->reply, "checkpoints", count);
    json_set_int(usage->reply, "checkpoint_bytes", bytes);
    return result;
}

static int usage_work(struct store_connection *connection, void *data, struct error *error)
{
    struct usage *usage = data;
    const char *directory = usage->call->daemon->state_directory;
    struct statvfs disk;

    if (statvfs(directory, &disk) < 0)
        return error_set_errno(error, -errno, "cannot look at the disk of %s", directory);
    usage->reply = json_object_new_object();
    json_set_string(usage->reply, "directory", directory);
    json_set_int(usage->reply, "disk_bytes", (int64_t)(disk.f_blocks * disk.f_frsize));
    json_set_int(usage->reply, "free_bytes", (int64_t)(disk.f_bavail * disk.f_frsize));
    json_set_int(usage->reply, "database_bytes",
                 file_bytes(directory, "traind.db") + file_bytes(directory, "checkpoints.db"));
    return jobs_read(connection, usage, error);
}

static void on_usage(void *data, int result, const struct error *error)
{
    struct usage usage = *(struct usage *)data;

    free(data);
    if (result < 0) {
        json_object_put(usage.reply);
        call_fail_storage(usage.call, error);
    } else {
        call_reply(usage.call, usage.reply);
    }
}

static void handle_disk_usage(struct call *call)
{
    struct usage *usage = memory_zero(sizeof *usage);

    usage->call = call;
    store_read(call->daemon->store, usage_work, on_usage, usage);
}

/* Strangers see nothing. */
METHOD(DiskUsage, handle_disk_usage, ACCESS_ANYBODY, METHOD_ALONE);
