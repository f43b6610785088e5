/* device_view.c: see device_view.h. */
#include "daemon/methods/device_view.h"

#include "base/text.h"
#include "daemon/attempts/devices_nvidia.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/device_utilisation.h"

#include <math.h>
#include <stdio.h>

enum { JOBS_SHOWN_MAX = 256, OUTSIDE_SHOWN_MAX = 64 };

static struct json_object *list_jobs(const struct device *device)
{
    struct json_object *jobs = json_object_new_array();

    for (size_t i = 0; i < device->claim_count && i < JOBS_SHOWN_MAX; i++)
        json_object_array_add(jobs, json_object_new_int64(device->claims[i]->attempt->job_id));
    return jobs;
}

/* What each job holds of it. */
static struct json_object *list_bookings(const struct daemon *daemon, const struct device *device)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < device->claim_count && i < JOBS_SHOWN_MAX; i++) {
        struct json_object *booking = json_object_new_object();

        json_set_int(booking, "job", device->claims[i]->attempt->job_id);
        json_set_int(booking, "bytes", (int64_t)device->claims[i]->memory_booked);
        if (device->claims[i]->attempt->job)
            json_set_double(booking, "utilisation",
                            job_utilisation_on(daemon->jobs, device->claims[i]->attempt->job,
                                               device->claims[i]->attempt, device));
        if (device->claims[i]->shares_by_mps)
            json_set_bool(booking, "mps", true);
        json_object_array_add(list, booking);
    }
    return list;
}

static struct json_object *describe_process(const struct call *call,
                                            const struct process_use *process)
{
    bool seen = process->visible && call_sees(call, process->uid);
    struct json_object *user = json_object_new_object();
    char command[sizeof process->command];

    snprintf(command, sizeof command, "%s", process->command);
    json_set_int(user, "pid", seen || !process->visible ? process->pid : 0);
    json_set_string(user, "user", process->visible ? process->user : "?");
    json_set_string(user, "command", seen ? text_make_utf8(command) : "?");
    json_set_int(user, "bytes", (int64_t)process->memory);
    return user;
}

/* Those of the processes that are no job's of the device. */
static struct json_object *list_outside(const struct call *call, const struct device *device,
                                        const struct process_use *processes, size_t count)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < count && json_object_array_length(list) < OUTSIDE_SHOWN_MAX; i++)
        if (!device_holds_process(call->daemon, device, &processes[i]))
            json_object_array_add(list, describe_process(call, &processes[i]));
    return list;
}

static void add_feature(struct json_object *features, const char *feature)
{
    json_object_array_add(features, json_object_new_string(feature));
}

/* ---- NVIDIA's --------------------------------------------------------------------------------
 */

static void set_known(struct json_object *json, const char *key, double value)
{
    if (isfinite(value))
        json_set_double(json, key, value);
}

static void describe_nvidia(const struct call *call, const struct device *device,
                            const struct nvidia_device *nvidia, struct json_object *json)
{
    const struct daemon *daemon = call->daemon;
    char capability[32];

    if (nvidia->capability[0] > 0) {
        snprintf(capability, sizeof capability, "sm_%d%d", nvidia->capability[0],
                 nvidia->capability[1]);
        add_feature(json_get(json, "features"), capability);
    }
    json_set(json, "outside", list_outside(call, device, nvidia->processes, nvidia->process_count));
    if (device_nvidia_use(daemon, device, nvidia).by_booking)
        json_set(json, "outside_is_estimated", json_object_new_boolean(true));
    set_known(json, "utilisation", nvidia->utilisation < 0 ? NAN : 0.01 * nvidia->utilisation);
    set_known(json, "temperature", nvidia->temperature < 0 ? NAN : nvidia->temperature);
    set_known(json, "power_watts", nvidia->power);
    set_known(json, "energy_joules", nvidia->energy);
    if (nvidia->ecc_errors >= 0)
        json_set_int(json, "ecc_errors", nvidia->ecc_errors);
    if (*devices_nvidia_driver(daemon))
        json_set_string(json, "driver", devices_nvidia_driver(daemon));
    if (!device->health_reason[0] && nvidia->health_reason[0])
        json_set_string(json, "health_reason", nvidia->health_reason);
}

/* ---- any -------------------------------------------------------------------------------------
 */

/* By anybody. */
static uint64_t memory_used(const struct daemon *daemon, const struct device *device,
                            const struct nvidia_device *nvidia)
{
    return device->kind == DEVICE_CPU ? cpu_probe_memory_used("", daemon->cpu)
           : nvidia                   ? nvidia->memory_used
                                      : device->memory_outside + device->memory_booked;
}

static void describe_memory(const struct daemon *daemon, const struct device *device,
                            const struct nvidia_device *nvidia, struct json_object *json)
{
    uint64_t limit = device_memory_limit(device), booked = device->memory_booked;

    json_set_int(json, "memory_total", (int64_t)device->memory_total);
    json_set_int(json, "memory_used", (int64_t)memory_used(daemon, device, nvidia));
    json_set_int(json, "memory_booked", (int64_t)device->memory_booked);
    json_set_int(json, "memory_outside", (int64_t)device->memory_outside);
    json_set(json, "memory_limit",
             limit == UINT64_MAX ? NULL : json_object_new_int64((int64_t)limit));
    json_set(json, "memory_free",
             limit == UINT64_MAX
                 ? NULL
                 : json_object_new_int64((int64_t)(limit > booked ? limit - booked : 0)));
    json_set(json, "bookings", list_bookings(daemon, device));
    json_set_double(json, "high_watermark_ratio", device->high_watermark_ratio);
    json_set_double(json, "low_watermark_ratio", device->low_watermark_ratio);
}

struct json_object *device_describe(const struct call *call, const struct device *device,
                                    const struct device_processes *processes)
{
    const struct daemon *daemon = call->daemon;
    const struct nvidia_device *nvidia = device_nvidia(daemon, device);
    const struct cpu_probe *cpu = daemon->cpu;
    struct json_object *json = json_object_new_object();
    struct json_object *features = json_object_new_array();

    for (int i = 0; device->kind == DEVICE_CPU && i < cpu->feature_count; i++)
        add_feature(features, cpu->features[i]);
    json_set_string(json, "name", device->name);
    json_set_string(json, "id", device->id);
    json_set_string(json, "kind", device_kind_to_string(device->kind));
    json_set_string(json, "model", device->model);
    json_set_int(json, "cores", device->kind == DEVICE_CPU ? cpu->threads : 0);
    json_set(json, "features", features);
    describe_memory(daemon, device, nvidia, json);
    json_set_int(json, "slots", device->slots);
    json_set(json, "jobs", list_jobs(device));
    json_set_string(json, "health", device_health_to_string(device->health));
    json_set_string(json, "health_reason", device->health_reason[0] ? device->health_reason : NULL);
    if (device->trains || device->trains_reason[0])
        json_set_bool(json, "trains", device->trains);
    if (!device->trains && device->trains_reason[0])
        json_set_string(json, "trains_reason", device->trains_reason);
    if (device->kind == DEVICE_CUDA && *config_nvidia_plugin(&daemon->config))
        json_set_string(json, "backend", config_nvidia_plugin(&daemon->config));
    if (device->kind == DEVICE_CPU) {
        set_known(json, "cpu_pressure", cpu_probe_pressure("", "cpu"));
        set_known(json, "memory_pressure", cpu_probe_pressure("", "memory"));
    }
    if (nvidia)
        describe_nvidia(call, device, nvidia, json);
    else if (device->kind == DEVICE_CPU && processes)
        json_set(json, "outside", list_outside(call, device, processes->largest, processes->count));
    return json;
}
