/* service.c: Ping and Devices. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "daemon/devices/device.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/jobs.h"
#include "daemon/methods/device_view.h"
#include "daemon/methods/methods.h"
#include "daemon/store/store.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Ping: from memory alone ----------------------------------------------------------------- */

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

/* Says what a full disk means for the caller; "": the disk is not full. */
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

static void handle_ping(struct call *call)
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

/* Strangers see only how many decisions there were. */
METHOD(Ping, handle_ping, ACCESS_ANYBODY, METHOD_SHORT);

/* ---- Devices: all devices, with the memory that is in use ---------------------------------- */

enum { SHOWN_LEAST_BYTES = 64 << 20 }; /* smaller processes are not listed */

struct devices_query {
    struct call *call;
    struct device_processes processes;
    struct devices_query *next;
};

/* A search takes long if there are thousands of processes. So the thread pool makes one at a time,
 * and all calls that come meanwhile share the next one. Used on the loop only. */
struct process_search {
    uv_work_t work;
    struct devices_query *queries; /* the calls that it answers; owned */
    struct device_processes processes;
};

static struct devices_query *queries_waiting;
static bool search_under_way;

static void search_begin(struct daemon *daemon);

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
    struct process_search *search = work->data;

    search->processes.count =
        processes_find_largest(search->processes.largest, DEVICE_PROCESSES_MAX, SHOWN_LEAST_BYTES);
}

static void on_processes(uv_work_t *work, int status)
{
    struct process_search *search = work->data;
    struct daemon *daemon = search->queries->call->daemon;

    (void)status; /* never cancelled */
    search_under_way = false;
    if (queries_waiting)
        search_begin(daemon);
    for (struct devices_query *query = search->queries, *next; query; query = next) {
        next = query->next;
        query->processes = search->processes;
        devices_refresh(daemon, DEVICE_READING_RECENT, reply_devices, query);
    }
    free(search);
}

/* Begins a search for all waiting calls. */
static void search_begin(struct daemon *daemon)
{
    struct process_search *search = memory_zero(sizeof *search);

    search->work.data = search;
    search->queries = TAKE_POINTER(queries_waiting);
    search_under_way = true;
    daemon_queue_work(daemon, &search->work, find_processes, on_processes);
}

static void handle_devices(struct call *call)
{
    struct devices_query *query = memory_zero(sizeof *query);

    query->call = call;
    query->next = queries_waiting;
    queries_waiting = query;
    if (!search_under_way)
        search_begin(call->daemon);
}

/* Strangers see numbers of jobs, and bytes; of other programs, their users and bytes. */
METHOD(Devices, handle_devices, ACCESS_ANYBODY, METHOD_LONG);
