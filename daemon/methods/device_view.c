/* device_view.c: see device_view.h. */
#include "daemon/methods/device_view.h"

#include "base/text.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/devices/simulation.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/device_utilisation.h"

#include <stdio.h>

enum { JOBS_SHOWN_MAX = 256, OUTSIDE_SHOWN_MAX = 64 };

static struct json_object *list_jobs(const struct device *device)
{
    struct json_object *jobs = json_object_new_array();

    for (size_t i = 0; i < device->claim_count && i < JOBS_SHOWN_MAX; i++)
        json_object_array_add(jobs, json_object_new_int64(device->claims[i]->attempt->job_id));
    return jobs;
}

/* Lists the memory that each job has booked on the device. */
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
        if (device->claims[i]->shared_by)
            json_set_bool(booking, device->claims[i]->shared_by->name, true);
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

/* Lists those of the processes that belong to no job on the device. */
static struct json_object *list_outside(const struct call *call, const struct device *device,
                                        const struct process_use *processes, size_t count)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < count && json_object_array_length(list) < OUTSIDE_SHOWN_MAX; i++)
        if (!device_holds_process(call->daemon, device, &processes[i]))
            json_object_array_add(list, describe_process(call, &processes[i]));
    return list;
}

static void describe_memory(const struct daemon *daemon, const struct device *device,
                            struct json_object *json)
{
    uint64_t limit = device_memory_limit(device), free = device_memory_free(device);

    json_set_int(json, "memory_total", (int64_t)device->memory_total);
    json_set_int(json, "memory_used", (int64_t)device_memory_used(daemon, device));
    json_set_int(json, "memory_booked", (int64_t)device->memory_booked);
    json_set_int(json, "memory_outside", (int64_t)device->memory_outside);
    json_set(json, "memory_limit",
             limit == UINT64_MAX ? NULL : json_object_new_int64((int64_t)limit));
    json_set(json, "memory_free", free == UINT64_MAX ? NULL : json_object_new_int64((int64_t)free));
    json_set(json, "bookings", list_bookings(daemon, device));
    json_set_double(json, "high_watermark_ratio", device->high_watermark_ratio);
    json_set_double(json, "low_watermark_ratio", device->low_watermark_ratio);
    if (device->ledger)
        json_set_string(json, "memory_of", device->ledger->name);
    if (device->same_hardware)
        json_set_bool(json, "same_hardware", true);
}

struct json_object *device_describe(const struct call *call, const struct device *device,
                                    const struct device_processes *processes)
{
    const struct daemon *daemon = call->daemon;
    const struct device_driver *driver = device->driver;
    struct json_object *json = json_object_new_object();
    const char *backend = device_plugin(device, &daemon->config);
    const struct process_use *users;
    size_t count;

    json_set_string(json, "name", device->name);
    json_set_string(json, "id", device->id);
    json_set_string(json, "kind", driver->kind.name);
    json_set_string(json, "model", device->model);
    json_set_int(json, "cores", 0); /* unless the driver says otherwise */
    json_set(json, "features", json_object_new_array());
    describe_memory(daemon, device, json);
    json_set_int(json, "slots", device->slots);
    json_set(json, "jobs", list_jobs(device));
    json_set_string(json, "health", device_health_to_string(device->health));
    json_set_string(json, "health_reason", device->health_reason[0] ? device->health_reason : NULL);
    if (device->driver->simulation)
        json_set(json, "simulation", simulation_json(device));
    if (device->trains || device->trains_reason[0])
        json_set_bool(json, "trains", device->trains);
    if (!device->trains && device->trains_reason[0])
        json_set_string(json, "trains_reason", device->trains_reason);
    if (backend && backend[0])
        json_set_string(json, "backend", backend);
    if (driver->kind.has_backend)
        json_set_bool(json, "has_backend", true);
    if (driver->describe)
        driver->describe(daemon, device, json);
    if (driver->users && driver->users(daemon, device, &users, &count))
        json_set(json, "outside", list_outside(call, device, users, count));
    else if (driver->kind.is_host && processes)
        json_set(json, "outside", list_outside(call, device, processes->largest, processes->count));
    return json;
}
