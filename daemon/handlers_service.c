/* handlers_service.c: Ping and Devices. */
#include "daemon/handlers.h"
#include "daemon/jobs.h"
#include "daemon/supervisor.h"

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

enum { JOBS_SHOWN_MAX = 256 };

/* By anybody. */
static uint64_t device_memory_used(const struct daemon *daemon, const struct device *device)
{
    return device->kind == DEVICE_CPU ? cpu_probe_memory_used("", &daemon->cpu)
                                      : device->memory_outside + device->memory_booked;
}

static struct json_object *describe_device(const struct daemon *daemon, const struct device *device)
{
    const struct cpu_probe *cpu = &daemon->cpu;
    struct json_object *json = json_object_new_object();
    struct json_object *features = json_object_new_array(), *jobs = json_object_new_array();
    uint64_t limit = device_memory_limit(device);

    for (int i = 0; device->kind == DEVICE_CPU && i < cpu->feature_count; i++)
        json_object_array_add(features, json_object_new_string(cpu->features[i]));
    for (size_t i = 0; i < device->attempt_count && i < JOBS_SHOWN_MAX; i++)
        json_object_array_add(jobs, json_object_new_int64(device->attempts[i]->job_id));
    json_set_string(json, "name", device->name);
    json_set_string(json, "id", device->id);
    json_set_string(json, "kind", device_kind_to_string(device->kind));
    json_set_string(json, "model", device->model);
    json_set_int(json, "cores", device->kind == DEVICE_CPU ? cpu->threads : 0);
    json_set(json, "features", features);
    json_set_int(json, "memory_total", (int64_t)device->memory_total);
    json_set_int(json, "memory_used", (int64_t)device_memory_used(daemon, device));
    json_set_int(json, "memory_booked", (int64_t)device->memory_booked);
    json_set_int(json, "memory_outside", (int64_t)device->memory_outside);
    json_set(json, "memory_limit",
             limit == UINT64_MAX ? NULL : json_object_new_int64((int64_t)limit));
    json_set_double(json, "high_watermark_ratio", device->high_watermark_ratio);
    json_set_double(json, "low_watermark_ratio", device->low_watermark_ratio);
    json_set_int(json, "slots", device->slots);
    json_set(json, "jobs", jobs);
    json_set_string(json, "health", device_health_to_string(device->health));
    json_set_string(json, "health_reason", device->health_reason[0] ? device->health_reason : NULL);
    return json;
}

void handle_devices(struct call *call)
{
    struct json_object *reply = json_object_new_object(), *list = json_object_new_array();
    const struct devices *devices = &call->daemon->devices;

    jobs_measure_devices(call->daemon);
    for (size_t i = 0; i < devices->count; i++)
        json_object_array_add(list, describe_device(call->daemon, devices->list[i]));
    json_set(reply, "devices", list);
    call_reply(call, reply);
}
