/* calibrator.c: see calibrator.h. traind-worker keeps its results in STATE/cache, for each device
 * with its libraries and driver, as it does for any user. At each start the daemon asks for every
 * device once, and the worker measures only what has changed. */
#include "daemon/jobs/calibrator.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/devices/driver.h"
#include "daemon/devices/worker_call.h"
#include "daemon/jobs/calibrations.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/planning_turns.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    IDLE_MILLISECONDS = 1000, /* the next job of a script may come at any moment */
    PATIENCE_MILLISECONDS = 300000,
    FAILURES_MAX = 3,
    TARGETS_MAX = 32
};

/* The CPU with a number of threads, or a type of GPU. */
struct target {
    int type;    /* of device */
    int threads; /* 0: a GPU */
    int failures;
    bool done;
};

struct calibrator {
    struct target targets[TARGETS_MAX];
    size_t count;
    struct worker_call *call; /* NULL: nothing is measured */
    struct target *measured;  /* the target of `call`, on: */
    const struct device *device;
    uv_timer_t timer; /* runs until the machine counts as idle */
    char *cache;
};

/* ---- what there is to measure ---------------------------------------------------------------- */

static void target_add(struct calibrator *calibrator, int type, int threads)
{
    for (size_t i = 0; i < calibrator->count; i++)
        if (calibrator->targets[i].type == type && calibrator->targets[i].threads == threads)
            return;
    if (calibrator->count < TARGETS_MAX)
        calibrator->targets[calibrator->count++] =
            (struct target){.type = type, .threads = threads};
}

/* Adds the types of GPU that native jobs can train on. They become known one after the other. */
static void targets_find(const struct jobs *jobs, struct calibrator *calibrator)
{
    const struct devices *devices = jobs->daemon->devices;

    for (size_t i = 0; i < devices->count; i++)
        if (devices->list[i]->driver->kind.has_backend && devices->list[i]->trains)
            target_add(calibrator, devices->list[i]->type, 0);
}

static bool plans_are_made(const struct jobs *jobs)
{
    size_t count;
    const struct planning *runs = planning_turns_runs(jobs, &count);

    for (size_t i = 0; i < count; i++)
        if (runs[i].running)
            return true;
    return false;
}

/* A free device of the target. NULL: there is none, or other work would distort the measurement; a
 * job on a GPU keeps cores busy, too. */
static const struct device *target_device(const struct jobs *jobs, const struct target *target)
{
    const struct devices *devices = jobs->daemon->devices;
    const struct device *found = NULL;

    for (size_t i = 0; i < devices->count; i++) {
        const struct device *device = devices->list[i];

        if (device->claim_count > 0 && (target->threads || !device->driver->kind.has_backend))
            return NULL;
        if (!found && device->type == target->type && !device_is_in_use(device) &&
            device_health_of_hardware(device) == DEVICE_HEALTHY)
            found = device;
    }
    return plans_are_made(jobs) ? NULL : found;
}

/* The next target that can be measured now, and its device; NULL: there is none. */
static struct target *target_next(const struct jobs *jobs, const struct device **device)
{
    struct calibrator *calibrator = jobs->calibrator;

    for (size_t i = 0; i < calibrator->count; i++)
        if (!calibrator->targets[i].done &&
            (*device = target_device(jobs, &calibrator->targets[i])))
            return &calibrator->targets[i];
    return NULL;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* worker_call_begin() calls this with the answer, or with NULL and the cause of the failure. */
static void on_measured(void *data, struct json_object *answer, const struct error *failure)
{
    struct jobs *jobs = data;
    struct calibrator *calibrator = jobs->calibrator;
    struct target *target = calibrator->measured;
    const char *device =
        target->threads ? DEVICE_HOST : jobs->daemon->devices->type_names[target->type];
    struct error error = *failure;

    calibrator->call = NULL;
    if (answer && calibrations_take(jobs->calibrations, device, answer, &error) == 0) {
        target->done = true;
        log_info("%s is calibrated", calibrator->device->name);
    } else if (++target->failures == FAILURES_MAX) {
        target->done = true;
        log_warning("%s could not be calibrated, so its speed is a guess: %s",
                    calibrator->device->name, error.text);
    }
    calibrator_tend(jobs);
}

static void measure(struct jobs *jobs, struct target *target, const struct device *device)
{
    struct calibrator *calibrator = jobs->calibrator;
    const char *plugin = target->threads ? NULL : device_plugin(device, &jobs->daemon->config);
    const char *arguments[12] = {"traind-worker", "calibrate", "--unless-kept", "--device",
                                 device->name};
    struct worker_call_options options = {.worker = jobs->daemon->worker_path,
                                          .arguments = arguments,
                                          .device = target->threads ? NULL : device,
                                          .drivers = jobs->daemon->devices->drivers,
                                          .cache = calibrator->cache,
                                          .patience = PATIENCE_MILLISECONDS};
    char threads[16];
    struct error error;
    int count = 5;

    snprintf(threads, sizeof threads, "%d", target->threads);
    if (target->threads) {
        arguments[count++] = "--threads";
        arguments[count++] = threads;
    } else if (plugin && plugin[0]) {
        arguments[count++] = "--plugin";
        arguments[count++] = plugin;
    }
    log_debug("the calibration of %s begins", device->name);
    calibrator->measured = target;
    calibrator->device = device;
    calibrator->call = worker_call_begin(jobs->daemon->loop, &options, on_measured, jobs, &error);
    if (!calibrator->call)
        on_measured(jobs, NULL, &error);
}

static void on_idle(uv_timer_t *timer)
{
    struct jobs *jobs = timer->data;
    const struct device *device;
    struct target *target = target_next(jobs, &device);

    if (target && !jobs->calibrator->call)
        measure(jobs, target, device);
}

void calibrator_tend(struct jobs *jobs)
{
    struct calibrator *calibrator = jobs->calibrator;
    const struct device *device;

    if (!calibrator || jobs->stopping)
        return;
    targets_find(jobs, calibrator);
    if (calibrator->call &&
        (device_is_in_use(calibrator->device) || !target_device(jobs, calibrator->measured))) {
        log_debug("the calibration of %s stops, because the device is needed",
                  calibrator->device->name);
        worker_call_abandon(TAKE_POINTER(calibrator->call));
    }
    if (calibrator->call)
        return;
    if (!target_next(jobs, &device))
        uv_timer_stop(&calibrator->timer);
    else if (!uv_is_active((uv_handle_t *)&calibrator->timer))
        uv_timer_start(&calibrator->timer, on_idle, IDLE_MILLISECONDS, 0);
}

void calibrator_want_threads(struct jobs *jobs, int threads)
{
    const struct device *cpu = devices_find(jobs->daemon->devices, DEVICE_HOST);

    if (jobs->calibrator && cpu)
        target_add(jobs->calibrator, cpu->type, threads);
}

pid_t calibrator_pid(const struct jobs *jobs)
{
    return jobs->calibrator && jobs->calibrator->call ? worker_call_pid(jobs->calibrator->call) : 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void calibrator_start(struct jobs *jobs)
{
    struct calibrator *calibrator;

    if (!jobs->daemon->config.calibrate)
        return;
    calibrator = memory_zero(sizeof *calibrator);
    calibrator->cache = memory_format("%s/cache", jobs->daemon->state_directory);
    uv_timer_init(jobs->daemon->loop, &calibrator->timer);
    calibrator->timer.data = jobs;
    jobs->calibrator = calibrator;
    calibrator_want_threads(jobs, job_needs_threads(jobs->daemon, NULL));
    calibrator_tend(jobs);
}

void calibrator_stop(struct jobs *jobs)
{
    if (!jobs->calibrator)
        return;
    if (jobs->calibrator->call)
        worker_call_abandon(TAKE_POINTER(jobs->calibrator->call));
    uv_close((uv_handle_t *)&jobs->calibrator->timer, NULL);
}

void calibrator_free(struct jobs *jobs)
{
    if (jobs->calibrator)
        free(jobs->calibrator->cache);
    free(jobs->calibrator);
}
