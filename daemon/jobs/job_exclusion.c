/* job_exclusion.c: see job_exclusion.h. */
#include "daemon/jobs/job_exclusion.h"

#include "daemon/devices/driver.h"
#include "daemon/jobs/job_needs.h"

#include <stdio.h>
#include <string.h>

static bool is_avoided(const struct job_needs *needs, const struct device *device)
{
    for (size_t i = 0; i < needs->avoid_count; i++)
        if (strcmp(needs->avoid[i], device->name) == 0)
            return true;
    return false;
}

/* Explains the exclusion by the specification alone, in the order in which its keys bind. */
static const char *explain_specification(const struct job_needs *needs, enum job_kind kind,
                                         const struct device *device)
{
    if (kind == JOB_COMMAND && device->driver->kind.for_native_jobs)
        return "a command runs there only if device.allow names it";
    if (needs->force)
        return "device.force names another";
    if (device_matches_any(device, needs->deny, needs->deny_count))
        return "device.deny excludes it";
    if (needs->allow_count && !device_matches_any(device, needs->allow, needs->allow_count))
        return "device.allow does not name it";
    if (device->same_hardware)
        return "it is another way to a GPU, which only device.prefer, allow or force chooses";
    if (needs->prefer && !needs->fallback && !device_matches(device, needs->prefer))
        return "device.prefer names another, and device.fallback is false";
    if (kind == JOB_COMMAND && device->driver->kind.is_host)
        return "a command with resources.device_memory runs on the CPU only if device.allow names "
               "it";
    if (kind == JOB_COMMAND)
        return "a command runs there only with resources.device_memory, or if "
               "device.allow names "
               "it";
    return "the specification does not allow it";
}

char *job_exclusion_explain(const struct job_needs *needs, enum job_kind kind,
                            const struct device *device, char *text, size_t size)
{
    if (!job_needs_would_allow(needs, kind, device))
        snprintf(text, size, "%s", explain_specification(needs, kind, device));
    else if (needs->pinned && strcmp(needs->pinned, device->name) != 0)
        snprintf(text, size, "the job is pinned to %s: trainctl move JOB auto lets it go elsewhere",
                 needs->pinned);
    else if (is_avoided(needs, device))
        snprintf(text, size, "the job failed there, and is tried elsewhere");
    else
        snprintf(text, size, "the job may not use it");
    return text;
}
