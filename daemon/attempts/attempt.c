/* attempt.c: see attempt.h. */
#include "daemon/attempts/attempt.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/own_cores.h"
#include "daemon/attempts/stop.h"
#include "daemon/attempts/warm_pool.h"
#include "daemon/devices/host_probe.h"
#include "daemon/folder/exit_record.h"
#include "daemon/folder/job_cgroup.h"
#include "daemon/work/job_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- memory ---------------------------------------------------------------------------------- */

struct attempt *attempt_new(struct daemon *daemon, const struct attempt_events *events,
                            struct job *job, int64_t number)
{
    struct attempt *attempt = memory_zero(sizeof *attempt);

    attempt->daemon = daemon;
    attempt->events = events;
    attempt->job = job;
    attempt->job_id = job->id;
    attempt->uid = job->uid;
    attempt->number = number;
    attempt->planning = number == 0;
    attempt->claim = (struct device_claim){.attempt = attempt,
                                           .job = job->id,
                                           .number = number,
                                           .is_one_process = job->kind == JOB_NATIVE,
                                           .slowdown = 1};
    attempt_link_init(&attempt->link);
    attempt_report_init(&attempt->report);
    spool_ingest_init(&attempt->spool);
    return attempt;
}

void attempt_release(struct attempt *attempt)
{
    if (!(attempt->finish || attempt->detached) || attempt->working || attempt->spool.busy ||
        attempt->open_handles > 0)
        return;
    /* One that was detached is booked still, and calls that are under way show bookings. */
    for (int i = 0; i < attempt->claim.device_count; i++)
        device_unbook(attempt->claim.devices[i], &attempt->claim, attempt->claim.memory_booked);
    if (attempt->spool.file >= 0)
        close(attempt->spool.file);
    if (attempt->spool.folder >= 0)
        close(attempt->spool.folder);
    spool_ingest_release(&attempt->spool);
    attempt_link_release(&attempt->link);
    attempt_report_release(&attempt->report);
    json_object_put(attempt->exit);
    attempt_launch_release(&attempt->launch);
    free(attempt);
}

void attempt_handle_closed(uv_handle_t *handle)
{
    struct attempt *attempt = handle->data;

    attempt->open_handles--;
    attempt_release(attempt);
}

static void timers_close(struct attempt *attempt)
{
    attempt_timer_close(&attempt->deadline);
    attempt_timer_close(&attempt->link.seek);
}

/* ---- end ------------------------------------------------------------------------------------- */

struct attempt_place attempt_place(const struct attempt *attempt)
{
    return (struct attempt_place){.state_directory = attempt->daemon->state_directory,
                                  .job = attempt->job_id,
                                  .attempt = attempt->number,
                                  .uid = attempt->uid};
}

double attempt_suspended_seconds(const struct attempt *attempt, double until)
{
    const struct attempt_suspension *suspension = &attempt->suspension;
    bool holds = suspension->state >= SUSPENSION_HOLDS && suspension->told > 0;

    return suspension->suspended + (holds ? fmax(until - suspension->told, 0) : 0);
}

double attempt_run_seconds(const struct attempt *attempt, double until)
{
    if (attempt->started <= 0)
        return 0;
    return fmax(until - attempt->started - attempt_suspended_seconds(attempt, until), 0);
}

void attempt_take_exit(struct attempt *attempt, struct json_object *record)
{
    exit_record_bound(record, attempt->launched, clock_now());
    attempt->exit = json_object_get(record);
    attempt->started = json_get_double(record, "started", 0);
    attempt->ended = json_get_double(record, "ended", 0);
    attempt->suspension.suspended =
        json_get_double(record, "suspended_seconds", attempt->suspension.suspended);
    attempt->suspension.told = attempt->ended;
    attempt_is_gone(attempt);
}

/* The device is free at once; the rest of the spool is stored before the end. */
void attempt_is_gone(struct attempt *attempt)
{
    attempt->claim.gone = true;
    job_cgroup_remove(attempt->job_id, attempt->number);
    attempt_leave_cores(attempt);
    timers_close(attempt);
    attempt->events->gone(attempt);
    /* the job's user reports this, and a lie harms only the user's own job */
    if (attempt->never_started ||
        (attempt->exit && json_get_int(attempt->exit, "spool_bytes", -1) == 0))
        attempt->events->ended(attempt);
    else
        spool_ingest_finish(attempt);
}

/* ---- start ----------------------------------------------------------------------------------- */

void attempt_refuse_launch(struct attempt *attempt, const struct error *error)
{
    attempt->link.error = *error;
    log_error("job %lld, attempt %lld: %s", (long long)attempt->job_id, (long long)attempt->number,
              attempt->link.error.text);
    attempt->never_started = true;
    attempt->ended = clock_now();
    attempt_is_gone(attempt);
}

static void launch_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;

    attempt_launch_run(&attempt->launch, &attempt->link.error);
    if (attempt->launch.warm >= 0)
        close(attempt->launch.warm);
}

static void on_launched(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;
    int descriptor = attempt->launch.socket;

    (void)status;
    attempt->working = false;
    json_object_put(attempt->launch.spec);
    attempt->launch.spec = NULL;
    if (attempt->detached) { /* the shim runs on, and the next daemon finds it */
        if (descriptor >= 0)
            close(descriptor);
        attempt_release(attempt);
        return;
    }
    if (descriptor >= 0) {
        attempt->started_here = true;
        attempt_deadline_start(attempt, clock_now());
        attempt_link_connect(attempt, descriptor);
        return;
    }
    attempt_refuse_launch(attempt, &attempt->link.error);
}

/* The most memory that placement gives to a job. */
static uint64_t planning_memory_limit(const struct daemon *daemon)
{
    double ratio = daemon->config.high_watermark_ratio;

    return ratio > 0 ? (uint64_t)(ratio * (double)daemon->host->memory_total)
                     : daemon->host->memory_total;
}

void attempt_launch(struct attempt *attempt, struct json_object *spec,
                    const struct launch_checkpoints *files, int threads, const char *choices)
{
    attempt->launched = clock_now();
    attempt_take_cores(attempt, spec, threads);
    attempt->launch = (struct attempt_launch){
        .state_directory = attempt->daemon->state_directory,
        .shim_path = attempt->daemon->shim_path,
        .worker_path = attempt->daemon->worker_path,
        .job = attempt->job_id,
        .attempt = attempt->number,
        .uid = attempt->uid,
        .kind = (enum job_kind)attempt->job->kind,
        .planning = attempt->planning,
        .devices = (const struct device *const *)attempt->claim.devices,
        .device_count = attempt->claim.device_count,
        .memory_booked = attempt->claim.memory_booked,
        .tasks_max = job_tasks_max(attempt->daemon->config.tasks_max),
        .descriptors_max = attempt->daemon->job_descriptors,
        .oom_score_adjust = attempt->daemon->config.oom_score_adjust,
        .threads = threads,
        .cores = attempt->keeps_to_cores ? &attempt->own_cores : NULL,
        .spec = json_object_get(spec),
        .files = *files,
        .memory_limit = planning_memory_limit(attempt->daemon),
        .drivers = attempt->daemon->devices->drivers,
        .config = &attempt->daemon->config,
        .warm = -1,
        .socket = -1,
    };
    snprintf(attempt->launch.choices, sizeof attempt->launch.choices, "%s", choices);
    if (attempt->events->prepare)
        attempt->events->prepare(attempt);
    if (!attempt->planning && attempt->job->kind == JOB_NATIVE &&
        attempt->claim.device_count == 1 && !attempt->claim.shared_by)
        attempt->launch.warm = warm_pool_take(attempt->daemon, attempt->claim.devices[0], spec);
    attempt->link.work.data = attempt;
    attempt->working = true;
    daemon_queue_work(attempt->daemon, &attempt->link.work, launch_work, on_launched);
}

void attempt_attach(struct attempt *attempt)
{
    if (!attempt->deadline.open && attempt->started > 0)
        attempt_deadline_start(attempt, attempt->started);
    attempt->link.sought = true;
    attempt_link_seek(attempt);
}

/* ---- farewell -------------------------------------------------------------------------------- */

void attempt_finish(struct attempt *attempt)
{
    attempt->finish = true;
    if (attempt->detached) {
        attempt_release(attempt);
        return;
    }
    spool_ingest_close(attempt);
    timers_close(attempt);
    if (attempt->link.is_open)
        attempt_link_acknowledge(attempt);
    attempt_release(attempt);
}

void attempt_detach(struct attempt *attempt)
{
    attempt->detached = true;
    spool_ingest_close(attempt);
    timers_close(attempt);
    attempt_link_close(attempt);
    attempt_release(attempt);
}
