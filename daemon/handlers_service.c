/* handlers_service.c: Ping and Devices. */
#include "daemon/device_view.h"
#include "daemon/devices_nvidia.h"
#include "daemon/handlers.h"
#include "daemon/jobs.h"

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

void handle_ping(struct call *call)
{
    struct daemon *daemon = call->daemon;
    struct json_object *reply = json_object_new_object(), *notes = json_object_new_array();

    json_set_string(reply, "version", TRAIND_VERSION);
    json_set_int(reply, "pid", getpid());
    json_set_double(reply, "started", daemon->started);
    json_set_string(reply, "mode", daemon->mode == DAEMON_SYSTEM ? "system" : "user");
    for (int i = 0; i < daemon->note_count; i++)
        json_object_array_add(notes, json_object_new_string(daemon->notes[i]));
    json_set(reply, "notes", notes);
    json_set(reply, "decisions", describe_decisions(daemon));
    call_reply(call, reply);
}

/* ---- Devices: each with what others and our jobs hold of it ------------------------------------
 */

static void reply_devices(void *data)
{
    struct call *call = data;
    struct json_object *reply = json_object_new_object(), *list = json_object_new_array();
    const struct devices *devices = &call->daemon->devices;

    jobs_measure_devices(call->daemon);
    for (size_t i = 0; i < devices->count; i++)
        json_object_array_add(list, device_describe(call->daemon, devices->list[i]));
    json_set(reply, "devices", list);
    call_reply(call, reply);
}

void handle_devices(struct call *call)
{
    devices_nvidia_refresh(call->daemon, reply_devices, call);
}
