/* start.c: see start.h. The transition to `starting` is stored while the shim is already being
 * started. If the daemon is killed in between, the next one finds the attempt by its folder
 * (recovery.c). For that the row has to say that the job is queued, behind the attempt before: so
 * a job that is queued again is not launched before that is on disk. Otherwise the next daemon
 * would start the same attempt a second time. */
#include "daemon/jobs/start.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/begin_checkpoints.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/early_changes.h"
#include "daemon/jobs/end.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/searches.h"
#include "daemon/jobs/sharing.h"
#include "daemon/jobs/suspend.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/trial.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>
#include <string.h>

struct attempt *job_bind_attempt(struct jobs *jobs, struct job *job, int64_t number,
                                 const struct attempt_events *events)
{
    return job->attempt = attempt_new(jobs->daemon, events, job, number);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* After a lack of memory, with smaller batches. */
static void attempt_launch_now(struct jobs *jobs, struct job *job, struct json_object *spec,
                               struct launch_checkpoints *files)
{
    const struct device_claim *claim = &job->attempt->claim;
    char choices[PLAN_CHOICES_MAX] = "";

    if (claim->device_count > 0)
        workload_choices(job->workload, claim->devices[0], job->memory_failures > 0, choices);
    attempt_launch(job->attempt, spec, files, job_needs_threads(jobs->daemon, job->needs), choices);
    *files = (struct launch_checkpoints){0}; /* they are the attempt's */
    /* a training run is long: its specification need not stay in memory */
    if (job->details) {
        json_object_put(job->details->spec);
        job->details->spec = NULL;
    }
}

void job_start(struct jobs *jobs, struct job *job, struct device *const *devices, int count,
               const char *reason, const char *decision)
{
    struct transition *transition;
    struct attempt *attempt;

    if (job_is_suspended(job)) {
        job_go_on(jobs, job, devices, count, reason, decision);
        return;
    }
    job_classes_remove(jobs->classes, job);
    job_wait_end(jobs->table, job, clock_now());
    job->attempt_number++;
    attempt = job_bind_attempt(jobs, job, job->attempt_number, &job_running_events);
    attempt->time_limit = job->details->time_limit;
    memcpy(attempt->claim.devices, devices, (size_t)count * sizeof *devices);
    attempt->claim.device_count = count;
    jobs_book(jobs, attempt, job_memory(job, devices[0]));
    device_claim_begin_energy(jobs->daemon, &attempt->claim);
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_STARTING, WAIT_NONE, reason);
    devices_name((const struct device *const *)devices, count, transition->update.device,
                 sizeof transition->update.device);
    transition->update.decision = memory_copy_text(decision);
    transition->update.attempt_change = ATTEMPT_BEGIN;
    transition->update.attempt_started = transition->update.time;
    transition_store(transition);
    job->launch_waits = job->unstored > 0;
    if (!job->launch_waits)
        job_launch(jobs, job);
}

void job_launch(struct jobs *jobs, struct job *job)
{
    job->launch_waits = false;
    if (job->attempt) /* it may have been cancelled meanwhile */
        begin_checkpoints_fetch(jobs, job, job->details->spec, attempt_launch_now);
}

static void on_started(struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct job *job = attempt->job;
    struct transition *transition;

    if (job && attempt->link.sought) { /* found after a restart: it may be moved from now on */
        early_changes_found(jobs, job->id);
        jobs_dispatch(jobs);
    }
    if (!job || job->state != JOB_STARTING ||
        attempt->suspension.state !=
            SUSPENSION_NONE) /* it was cancelled meanwhile, or found after a
                                                       * restart, or is not restored yet */
        return;
    job->launch_failures = 0;
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_RUNNING, WAIT_NONE, "");
    transition->update.keeps_reason = true;
    transition->update.started = transition->update.attempt_started = attempt->started;
    transition->update.attempt_change = ATTEMPT_RUN;
    transition->update.pid = attempt->claim.pid;
    transition_store(transition);
    search_job_started(jobs, job);
}

static void on_metrics_stored(struct attempt *attempt)
{
    search_job_measured(attempt->daemon->jobs, attempt->job);
}

/* A job that shares its device through a service gets the folder of the service. */
static void on_prepare(struct attempt *attempt)
{
    if (attempt->job->kind == JOB_NATIVE && attempt->claim.device_count == 1)
        sharing_join(attempt, attempt->launch.spec, &attempt->launch.sharing_folder);
}

const struct attempt_events job_running_events = {.prepare = on_prepare,
                                                  .started = on_started,
                                                  .measured = trial_observe_steps,
                                                  .metrics_stored = on_metrics_stored,
                                                  .suspension = job_suspension_heard,
                                                  .gone = job_attempt_gone,
                                                  .ended = job_attempt_ended};
