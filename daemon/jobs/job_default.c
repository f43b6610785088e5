/* job_default.c: see job_default.h. */
#include "daemon/jobs/job_default.h"

#include "daemon/devices/driver.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <stdio.h>

static bool names_none(const struct job *job)
{
    return job->kind == JOB_COMMAND && !job_needs_name_device(job->needs);
}

static bool is_gpu(const struct device *device)
{
    return !device->driver->kind.is_host && !device->driver->kind.only_by_name;
}

/* A lost GPU does not count, because commands do not wait for it. */
static bool machine_has_gpu(const struct jobs *jobs)
{
    const struct devices *devices = jobs->daemon->devices;

    for (size_t i = 0; i < devices->count; i++)
        if (is_gpu(devices->list[i]) && devices->list[i]->health != DEVICE_LOST)
            return true;
    return false;
}

/* A job that uses several devices at once needs GPUs, because there is only one CPU. */
static enum default_device default_of(const struct jobs *jobs, const struct job *job)
{
    enum default_device configured = jobs->daemon->config.default_device;

    if (configured != DEFAULT_DEVICE_AUTO)
        return configured;
    if (job->needs->devices > 1)
        return DEFAULT_DEVICE_GPU;
    return machine_has_gpu(jobs) && !job->workload->held_none ? DEFAULT_DEVICE_GPU
                                                              : DEFAULT_DEVICE_CPU;
}

bool job_default_allows(const struct jobs *jobs, const struct job *job, const struct device *device)
{
    if (!names_none(job) || job->needs->pinned) /* a user has chosen the device */
        return true;
    switch (default_of(jobs, job)) {
    case DEFAULT_DEVICE_CPU:
        return device->driver->kind.is_host;
    case DEFAULT_DEVICE_GPU:
        return is_gpu(device);
    default:
        return !device->driver->kind.only_by_name;
    }
}

char *job_default_explain(const struct jobs *jobs, const struct job *job, char *text, size_t size)
{
    bool learns = jobs->daemon->config.default_device == DEFAULT_DEVICE_AUTO;

    *text = '\0';
    if (!names_none(job) || !machine_has_gpu(jobs))
        return text;
    switch (default_of(jobs, job)) {
    case DEFAULT_DEVICE_GPU:
        snprintf(
            text, size,
            "the command names no device: it gets a GPU%s; --device cpu, gpu or any says which",
            learns ? ", unless earlier runs held none of one's memory" : "");
        break;
    case DEFAULT_DEVICE_CPU:
        snprintf(text, size,
                 "the command names no device: it runs on the CPU%s; --device cpu, gpu or any says "
                 "which",
                 learns ? ", for its last run held no memory of its GPU" : " (DefaultDevice)");
        break;
    default:
        snprintf(text, size,
                 "the command names no device: it runs on any; --device cpu or gpu says which");
    }
    return text;
}

void jobs_explain_default(const struct daemon *daemon, int64_t id, char *text, size_t size)
{
    const struct job *job = job_table_find(daemon->jobs->table, id);

    *text = '\0';
    if (job)
        job_default_explain(daemon->jobs, job, text, size);
}
