/* service.c: Ping and Devices. */
#include "daemon/device.h"
#include "daemon/devices_nvidia.h"
#include "daemon/jobs.h"
#include "daemon/methods/device_view.h"
#include "daemon/methods/handlers.h"
#include "daemon/store/store.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Ping: from memory alone -------------------------------------------------------------------
 */

static struct json_object *describe_decisions(const struct daemon *daemon)
{
    struct jobs_decisions decisions = jobs_decisions(daemon);
    struct json_object *object = json_object_new_object();

    json_set_int(object, "count", (int64_t)decisions.count);
    json_set_double(object, "seconds", decisions.seconds);
    json_set_double(object, "last_seconds", decisions.last_seconds);
    json_set_double(object, "longest_seconds", decisions.longest_seconds);
    json_set_bool(object, "due", decisions.due);
    return object;
}

/* What it means that nothing can be stored; "": that is not so. */
static const char *explain_full_disk(const struct daemon *daemon, char *text, size_t size)
{
    *text = '\0';
    if (store_disk_is_full(daemon->store))
        snprintf(text, size,
                 "the disk that holds traind's state (%.200s) is full: what becomes of jobs, their "
                 "ends too, waits until there is room and is not shown before, and none can be "
                 "submitted",
                 daemon->state_directory);
    return text;
}

void handle_ping(struct call *call)
{
    struct daemon *daemon = call->daemon;
    struct json_object *reply = json_object_new_object(), *notes = json_object_new_array();
    char full[512];

    json_set_string(reply, "version", TRAIND_VERSION);
    json_set_int(reply, "pid", getpid());
    json_set_double(reply, "started", daemon->started);
    json_set_string(reply, "mode", daemon->mode == DAEMON_SYSTEM ? "system" : "user");
    for (int i = 0; i < daemon->note_count; i++)
        json_object_array_add(notes, json_object_new_string(daemon->notes[i]));
    if (*explain_full_disk(daemon, full, sizeof full))
        json_object_array_add(notes, json_object_new_string(full));
    json_set(reply, "notes", notes);
    json_set_string(reply, "disk_full", *full ? full : NULL);
    json_set(reply, "decisions", describe_decisions(daemon));
    call_reply(call, reply);
}

/* ---- Devices: each with what others and our jobs hold of it ------------------------------------
 */

enum { SHOWN_LEAST_BYTES = 64 << 20 }; /* of a process that is told of by name */

struct devices_query {
    uv_work_t work;
    struct call *call;
    struct device_processes processes;
};

static void reply_devices(void *data)
{
    struct devices_query *query = data;
    struct daemon *daemon = query->call->daemon;
    struct json_object *reply = json_object_new_object(), *list = json_object_new_array();
    const struct devices *devices = daemon->devices;

    jobs_measure_devices(daemon);
    for (size_t i = 0; i < devices->count; i++)
        json_object_array_add(list,
                              device_describe(query->call, devices->list[i], &query->processes));
    json_set(reply, "devices", list);
    call_reply(query->call, reply);
    free(query);
}

static void find_processes(uv_work_t *work)
{
    struct devices_query *query = work->data;

    query->processes.count =
        processes_find_largest(query->processes.largest, DEVICE_PROCESSES_MAX, SHOWN_LEAST_BYTES);
}

static void on_processes(uv_work_t *work, int status)
{
    struct devices_query *query = work->data;

    (void)status; /* never cancelled */
    devices_nvidia_refresh(query->call->daemon, reply_devices, query);
}

void handle_devices(struct call *call)
{
    struct devices_query *query = calloc(1, sizeof *query);

    if (!query) {
        call_fail(call, "InternalError", NULL, "no memory left");
        return;
    }
    query->call = call;
    query->work.data = query;
    uv_queue_work(call->daemon->loop, &query->work, find_processes, on_processes);
}
