/* jobs_devices.c: handles changes of devices for the jobs on them, and checks which devices a job
 * asks for. */
#include "daemon/attempts/warm_pool.h"
#include "daemon/devices/driver.h"
#include "daemon/devices/host_probe.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/device_utilisation.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/headroom.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/job_strays.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/transition.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Makes jobs leave a lost device. Their processes may hang, so they are stopped, and killed if they
 * do not end. The jobs go on from their last checkpoints. */
static void leave_lost(struct daemon *daemon, struct device *device)
{
    char reason[2 * DEVICE_REASON_MAX];

    snprintf(reason, sizeof reason, "%s was lost: %s", device->name, device->health_reason);
    jobs_leave_device(daemon, device, PREEMPTION_DEVICE_LOST, reason);
}

void jobs_device_changed(struct daemon *daemon, struct device *device)
{
    if (device->health == DEVICE_LOST)
        leave_lost(daemon, device);
    jobs_dispatch(daemon->jobs);
}

static int refuse_unknown_device(const struct daemon *daemon, const char *name, struct error *error)
{
    const char *obstacle = devices_obstacle(daemon, name);
    char known[ATTEMPT_DEVICES_TEXT_MAX];

    devices_name((const struct device *const *)daemon->devices->list, (int)daemon->devices->count,
                 known, sizeof known);
    return error_set(error, -EINVAL, "this machine has no device \"%.64s\"; it has %s%s%s%s", name,
                     known, *obstacle ? " (" : "", obstacle, *obstacle ? ")" : "");
}

static int refuse_contradiction(const struct job_needs *needs, const char *other,
                                struct error *error)
{
    return error_set(error, -EINVAL,
                     "the job is to run on \"%.64s\" alone%s, but %s excludes that; change one of "
                     "the two",
                     needs->force ? needs->force : needs->prefer,
                     needs->force ? "" : " (device.fallback is false)", other);
}

/* Refuses more cores than jobs may use. Otherwise the job would wait forever, or run slower than it
 * expects. */
static int refuse_cores(const struct daemon *daemon, int cores, struct error *error)
{
    return error_set(error, -EINVAL,
                     "the command is to have %d cores, and jobs may use %d on this machine", cores,
                     daemon->host->threads);
}

/* The most devices of one type that a command may use on this machine, also lost ones. */
static int most_devices(const struct devices *devices, const struct job_needs *needs)
{
    int counts[DEVICE_TYPES_MAX] = {0}, most = 0;

    for (size_t i = 0; i < devices->count; i++) {
        const struct device *device = devices->list[i];

        if (job_needs_would_allow(needs, JOB_COMMAND, device) && ++counts[device->type] > most)
            most = counts[device->type];
    }
    return most;
}

static int refuse_count(int wanted, int most, struct error *error)
{
    return error_set(error, -EINVAL,
                     "the command is to have %d devices of one type at once, and this machine has "
                     "%d that it may use; ask for fewer (--gpus), or allow more kinds",
                     wanted, most);
}

int jobs_check_devices(struct daemon *daemon, const char *text, const char **key,
                       struct error *error)
{
    struct job_needs *needs = job_needs_take(daemon->jobs->needs, text);
    const char *name, *other;
    int result = 0;

    if (!needs)
        return error_no_memory(error, "the devices");
    if (job_needs_find_unknown(needs, daemon->devices, key, &name))
        result = refuse_unknown_device(daemon, name, error);
    else if (job_needs_find_contradiction(needs, daemon->devices, key, &other))
        result = refuse_contradiction(needs, other, error);
    else if (needs->devices > 1 && most_devices(daemon->devices, needs) < needs->devices) {
        *key = "resources.devices";
        result = refuse_count(needs->devices, most_devices(daemon->devices, needs), error);
    } else if (needs->cores > daemon->host->threads) {
        *key = "resources.cores";
        result = refuse_cores(daemon, needs->cores, error);
    }
    job_needs_drop(daemon->jobs->needs, needs);
    return result;
}

static void on_read(struct daemon *daemon)
{
    device_backends_ask(daemon);
    warm_pool_tend(daemon);
    if (daemon->jobs && daemon->jobs->loaded)
        jobs_headroom_check(daemon->jobs);
}

static void on_measured(struct daemon *daemon)
{
    jobs_headroom_check(daemon->jobs);
}

const struct device_listener jobs_device_listener = {
    .changed = jobs_device_changed,
    .used = device_utilisation_take,
    .read = on_read,
    .measured = on_measured,
    .strayed = job_strays_take,
    .passing_pids = jobs_passing_pids,
};
