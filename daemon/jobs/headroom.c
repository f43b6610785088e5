/* headroom.c: see headroom.h. The following happens once a second while attempts are on devices
 * with a limit, and whenever the OutsideFile of a simulated device changes:
 *
 * - The memory that other programs hold is measured.
 * - An attempt that holds more than it has booked is booked with its peak.
 * - A device above its high watermark makes a decision due, which may take off jobs with
 *   checkpoints at once. As many jobs stay as fit, the highest priorities first. No job is killed.
 *
 * The timer does not run while no job runs. */
#include "daemon/jobs/headroom.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/job_strays.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/move.h"
#include "daemon/jobs/over_memory.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>
#include <string.h>

enum { HEADROOM_MILLISECONDS = 1000 };

/* The part of the device's memory that is reserved for a starting job of unknown need, and for how
 * many seconds. After that its measured memory counts. */
static const double ramp_up_ratio = 1.0 / 64;
static const double ramp_up_seconds = 10;

uint64_t headroom_ramp_up_reserve(const struct device *device, double now)
{
    uint64_t reserve = 0;

    for (size_t i = 0; i < device->claim_count; i++) {
        const struct attempt *attempt = device->claims[i]->attempt;

        uint64_t ramp = (uint64_t)(ramp_up_ratio * (double)device->memory_total);

        if (!attempt->need_is_known && !attempt->claim.suspended &&
            attempt->claim.memory_booked < ramp &&
            (attempt->started <= 0 || now - attempt->started < ramp_up_seconds))
            reserve += ramp - attempt->claim.memory_booked;
    }
    return reserve;
}

struct headroom {
    uv_timer_t timer; /* runs while attempts run */
    struct outside_watch *watches;
};

static bool has_running(const struct jobs *jobs)
{
    for (size_t d = 0; d < jobs->daemon->devices->count; d++) {
        const struct device *device = jobs->daemon->devices->list[d];

        if (device->claim_count > 0 &&
            (device->high_watermark_ratio > 0 || device_ledger(device)->high_watermark_ratio > 0))
            return true;
    }
    return false;
}

/* Whether a job on the device alone can be taken off. */
static bool has_movable(const struct jobs *jobs, const struct device *device)
{
    for (size_t i = 0; i < device->claim_count; i++) {
        const struct job *job = device->claims[i]->attempt->job;

        if (job && !job->ended && job_seconds_to_movable(jobs, job) <= 0)
            return true;
    }
    return false;
}

static bool can_be_relieved(const struct jobs *jobs, const struct device *device)
{
    bool can = has_movable(jobs, device);

    for (const struct device *sharer = device->sharers; sharer; sharer = sharer->next_sharer)
        can = can || has_movable(jobs, sharer);
    return can;
}

static bool others_leave(struct jobs *jobs, struct device *device)
{
    bool acts = over_memory_acts(jobs, device);

    for (struct device *sharer = device->sharers; sharer; sharer = sharer->next_sharer)
        acts = acts || over_memory_acts(jobs, sharer);
    return acts;
}

void jobs_headroom_check(struct jobs *jobs)
{
    for (size_t d = 0; d < jobs->daemon->devices->count; d++) {
        struct device *device = jobs->daemon->devices->list[d];

        if (device_is_over_limit(device) && others_leave(jobs, device))
            continue;
        if (device_is_over_limit(device) && can_be_relieved(jobs, device)) {
            log_info("%s is beyond its high watermark: others hold %llu bytes, our jobs %llu",
                     device->name, (unsigned long long)device->memory_outside,
                     (unsigned long long)device_ledger_booked(device));
            jobs_dispatch(jobs);
            return;
        }
    }
}

static void look(struct jobs *jobs)
{
    if (!jobs_measure_outside(jobs)) /* else it is checked once the reading arrives */
        jobs_headroom_check(jobs);
}

static void on_timer(uv_timer_t *timer)
{
    struct jobs *jobs = timer->data;

    if (!has_running(jobs)) {
        uv_timer_stop(timer);
        return;
    }
    look(jobs);
    job_strays_look(jobs);
}

void jobs_headroom_watch(struct jobs *jobs)
{
    if (!jobs->stopping && !uv_is_active((uv_handle_t *)&jobs->headroom->timer))
        uv_timer_start(&jobs->headroom->timer, on_timer, HEADROOM_MILLISECONDS,
                       HEADROOM_MILLISECONDS);
}

/* ---- files of simulated devices -------------------------------------------------------------- */

/* Watches the file's folder, because the file may be replaced by renaming. */
struct outside_watch {
    uv_fs_event_t handle;
    struct outside_watch *next;
    struct jobs *jobs;
    const char *path,
        *name; /* of the file; they point into device_config, which outlives a reload */
};

static void on_outside(uv_fs_event_t *handle, const char *name, int events, int status)
{
    struct outside_watch *watch = handle->data;

    (void)events;
    if (status < 0 || watch->jobs->stopping || (name && strcmp(name, watch->name) != 0))
        return;
    jobs_dispatch(watch->jobs); /* a decision measures the memory */
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void watch_file(struct jobs *jobs, const char *path)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *folder = NULL;
    struct outside_watch *watch;
    int result;

    if (!slash) /* the file is still read for every decision */
        return;
    folder =
        slash > path ? memory_format("%.*s", (int)(slash - path), path) : memory_copy_text("/");
    watch = memory_zero(sizeof *watch);
    watch->jobs = jobs;
    watch->path = path;
    watch->name = slash + 1;
    watch->handle.data = watch;
    uv_fs_event_init(jobs->daemon->loop, &watch->handle);
    result = uv_fs_event_start(&watch->handle, on_outside, folder, 0);
    if (result < 0)
        log_warning("%s cannot be watched and is read with every decision only: %s", path,
                    uv_strerror(result));
    watch->next = jobs->headroom->watches;
    jobs->headroom->watches = watch;
}

static bool is_watched(const struct jobs *jobs, const char *path)
{
    for (const struct outside_watch *watch = jobs->headroom->watches; watch; watch = watch->next)
        if (strcmp(watch->path, path) == 0)
            return true;
    return false;
}

/* Watches of an earlier configuration stay. They are few, and cost only needless measurements. */
static void watch_files(struct jobs *jobs)
{
    const struct devices *devices = jobs->daemon->devices;

    for (size_t d = 0; d < devices->count; d++) {
        const struct device *device = devices->list[d];

        if (device->config && device->config->outside_file[0] &&
            !is_watched(jobs, device->config->outside_file))
            watch_file(jobs, device->config->outside_file);
    }
}

void jobs_reconsider(struct daemon *daemon)
{
    watch_files(daemon->jobs);
    jobs_dispatch(daemon->jobs);
}

void jobs_headroom_start(struct jobs *jobs)
{
    jobs->headroom = memory_zero(sizeof *jobs->headroom);
    uv_timer_init(jobs->daemon->loop, &jobs->headroom->timer);
    jobs->headroom->timer.data = jobs;
    watch_files(jobs);
}

void jobs_headroom_stop(struct jobs *jobs)
{
    if (!jobs->headroom)
        return;
    uv_close((uv_handle_t *)&jobs->headroom->timer, NULL);
    while (jobs->headroom->watches) {
        struct outside_watch *watch = jobs->headroom->watches;

        jobs->headroom->watches = watch->next;
        uv_close((uv_handle_t *)&watch->handle, on_watch_closed);
    }
}
