/* job_default.c: see job_default.h. */
#include "daemon/jobs/job_default.h"

#include "daemon/devices/driver.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <stdio.h>
#include <string.h>

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

/* What a default rests on. */
enum default_basis {
    DEFAULT_BY_NUMBER, /* there is only one CPU, so a job for several devices needs GPUs */
    DEFAULT_LEARNT,
    DEFAULT_GUESSED,
    DEFAULT_CONFIGURED
};

static enum default_device default_of(const struct jobs *jobs, const struct job *job,
                                      enum default_basis *basis)
{
    enum default_device configured = jobs->daemon->config.default_device;
    const struct workload *workload = job->workload;
    const char *guess = job->needs->guess;
    bool gpu;

    *basis = DEFAULT_BY_NUMBER;
    if (job->needs->devices > 1)
        return DEFAULT_DEVICE_GPU;
    if (workload->held_none || workload->held) {
        *basis = DEFAULT_LEARNT;
        gpu = !workload->held_none;
    } else if (guess) {
        *basis = DEFAULT_GUESSED;
        gpu = strcmp(guess, DEVICES_GPU) == 0;
    } else {
        *basis = DEFAULT_CONFIGURED;
        if (configured != DEFAULT_DEVICE_AUTO)
            return configured;
        gpu = true;
    }
    return gpu && machine_has_gpu(jobs) ? DEFAULT_DEVICE_GPU : DEFAULT_DEVICE_CPU;
}

bool job_default_allows(const struct jobs *jobs, const struct job *job, const struct device *device)
{
    enum default_basis basis;

    if (!names_none(job) || job->needs->pinned) /* a user has chosen the device */
        return true;
    switch (default_of(jobs, job, &basis)) {
    case DEFAULT_DEVICE_CPU:
        return device->driver->kind.is_host;
    case DEFAULT_DEVICE_GPU:
        return is_gpu(device);
    default:
        return !device->driver->kind.only_by_name;
    }
}

/* What the default rests on, for the beginning of a sentence. */
static void explain_basis(const struct jobs *jobs, const struct job *job, enum default_basis basis,
                          char *text, size_t size)
{
    enum default_device configured = jobs->daemon->config.default_device;
    const char *reason = job->needs->guess_reason;

    if (basis == DEFAULT_BY_NUMBER)
        snprintf(text, size, "the command uses several devices");
    else if (basis == DEFAULT_LEARNT && job->workload->held_none)
        snprintf(text, size, "the command's last run on a GPU held no memory of it");
    else if (basis == DEFAULT_LEARNT)
        snprintf(text, size, "earlier runs of the command held memory of a GPU");
    else if (basis == DEFAULT_GUESSED)
        snprintf(text, size, "%s", reason ? reason : "device.guess says so");
    else if (configured == DEFAULT_DEVICE_AUTO)
        snprintf(text, size, "nobody knows yet what the command uses");
    else
        snprintf(text, size, "DefaultDevice is %s", default_device_to_string(configured));
}

char *job_default_explain(const struct jobs *jobs, const struct job *job, char *text, size_t size)
{
    static const char *const places[] = {[DEFAULT_DEVICE_CPU] = "runs on the CPU",
                                         [DEFAULT_DEVICE_GPU] = "gets a GPU",
                                         [DEFAULT_DEVICE_ANY] = "runs on any device"};
    enum default_basis basis;
    enum default_device device;
    char because[JOB_REASON_MAX / 2];

    *text = '\0';
    if (!names_none(job) || !machine_has_gpu(jobs))
        return text;
    device = default_of(jobs, job, &basis);
    explain_basis(jobs, job, basis, because, sizeof because);
    snprintf(text, size, "%s, so it %s; --device cpu, gpu or any says otherwise", because,
             job->needs->devices > 1 ? "gets GPUs" : places[device]);
    return text;
}

void jobs_explain_default(const struct daemon *daemon, int64_t id, char *text, size_t size)
{
    const struct job *job = job_table_find(daemon->jobs->table, id);

    *text = '\0';
    if (job)
        job_default_explain(daemon->jobs, job, text, size);
}
