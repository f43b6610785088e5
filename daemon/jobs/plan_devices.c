/* plan_devices.c: see plan_devices.h. */
#include "daemon/jobs/plan_devices.h"

#include "base/memory.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/calibrations.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"

#include <stdlib.h>
#include <string.h>

/* Whether the job's plan should cover the device's type. */
static bool wants_plan_for(const struct job *job, const struct device *device)
{
    return device->driver->kind.has_backend && device->trains && !device->missing &&
           job_needs_would_allow(job->needs, JOB_NATIVE, device);
}

bool plan_devices_are_covered(const struct jobs *jobs, const struct job *job,
                              struct json_object *plan)
{
    const struct devices *devices = jobs->daemon->devices;

    for (size_t i = 0; i < devices->count; i++)
        if (wants_plan_for(job, devices->list[i]) &&
            !(plan ? workload_plan_covers(plan, devices, devices->list[i])
                   : workload_plan_on(job->workload, devices->list[i]) != NULL))
            return false;
    return true;
}

static struct json_object *describe_device(const struct jobs *jobs, const struct device *device,
                                           const char *type)
{
    const char *known = calibrations_find(jobs->calibrations, type, 0);
    const char *plugin = device_plugin(device, &jobs->daemon->config);
    struct json_object *json = json_object_new_object(), *calibration = NULL;

    json_set_string(json, "device", device->name);
    json_set_string(json, "id", device->id);
    json_set_string(json, "type", type);
    if (plugin && plugin[0])
        json_set_string(json, "plugin", plugin);
    if (known && json_parse(known, strlen(known), &calibration, NULL) == 0)
        json_set(json, "calibration", calibration);
    return json;
}

char *plan_devices_describe(const struct jobs *jobs, const struct job *job)
{
    const struct devices *devices = jobs->daemon->devices;
    JSON_AUTO struct json_object *list = json_object_new_array();

    for (int type = 0; type < devices->type_count; type++) {
        const struct device *best = NULL;

        for (size_t i = 0; i < devices->count; i++) {
            const struct device *device = devices->list[i];

            if (device->type == type && wants_plan_for(job, device) &&
                (!best || device->memory_booked + device->memory_outside <
                              best->memory_booked + best->memory_outside))
                best = device;
        }
        if (!best)
            continue;
        json_object_array_add(list, describe_device(jobs, best, devices->type_names[type]));
    }
    return json_object_array_length(list) ? memory_copy_text(json_text(list, NULL)) : NULL;
}
