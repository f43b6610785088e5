/* planning.c: see planning.h. The plan of a native job may be stored already, for the same user and
 * digest. Otherwise a planning run makes it, which is attempt 0 of the job. A few runs go on at
 * once, without a device and for PlanTimeout at most.
 *
 * A job that leaves the queue of unplanned jobs first has its stored plan looked up. If there is
 * none, `traind-worker plan` runs, unless another job's run is making the same plan; then the job
 * waits for that run. */
#include "daemon/jobs/planning.h"

#include "base/memory.h"
#include "base/text.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/begin_checkpoints.h"
#include "daemon/jobs/calibrations.h"
#include "daemon/jobs/calibrator.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/end.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/plan_devices.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/jobs/recent_plans.h"
#include "daemon/jobs/start.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/store.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"

#include <stdlib.h>
#include <string.h>

/* Why the planned job cannot run as its specification asks; NULL: it can, or a lost device that may
 * come back could run it. A job that prefers no device and may not fall back must be able to run on
 * all allowed devices. */
static const char *plan_refuses(const struct jobs *jobs, const struct job *job)
{
    const struct devices *devices = jobs->daemon->devices;
    const char *refusal = NULL;
    bool means_all = !job->needs->prefer && !job->needs->fallback, runs = false, is_there = false;

    for (size_t i = 0; i < devices->count; i++) {
        const struct device *device = devices->list[i];
        const char *obstacle = device->missing ? NULL : job_obstacle(job, device);

        if (!job_needs_would_allow(job->needs, JOB_NATIVE, device))
            continue;
        is_there = true;
        runs = runs || !obstacle;
        if (obstacle && means_all)
            return obstacle;
        if (obstacle && !refusal)
            refusal = obstacle;
    }
    if (!is_there && job->needs->prefer && !job->needs->fallback)
        return "this machine has no device that it prefers, and device.fallback is false";
    return runs ? NULL : refusal;
}

/* Queues the job, or fails it if no device can run it. If the job must wait, the next decision says
 * why. */
static void job_is_planned(struct jobs *jobs, struct job *job, struct json_object *plan)
{
    char reason[JOB_REASON_MAX];
    const char *refusal;

    workload_set_plan(job->workload, plan);
    refusal = plan_refuses(jobs, job);
    if (refusal) {
        snprintf(reason, sizeof reason, "%s", refusal);
        job_fail(jobs, job, reason, NULL);
    } else {
        job_queue_after(jobs, job, 0);
    }
    jobs_dispatch(jobs);
}

static const struct attempt_events planning_events;

/* ---- looking up ------------------------------------------------------------------------------ */

static void planning_launch(struct jobs *jobs, struct job *job, struct json_object *spec,
                            struct launch_checkpoints *files)
{
    attempt_launch(job->attempt, spec, files, job_needs_threads(jobs->daemon, job->needs), "");
    *files = (struct launch_checkpoints){0}; /* they are the attempt's */
}

static void planning_run(struct jobs *jobs, struct job *job, struct planning *planning,
                         struct job_details *details)
{
    struct attempt *attempt = job_bind_attempt(jobs, job, 0, &planning_events);

    planning->running = true;
    attempt->time_limit = jobs->daemon->config.plan_timeout_seconds;
    calibrator_want_threads(jobs, job_needs_threads(jobs->daemon, job->needs));
    calibrator_tend(jobs);
    begin_checkpoints_fetch(jobs, job, details->spec, planning_launch);
}

/* Makes the job wait for another run that is making the same plan. False: there is none. */
static bool planning_join(struct jobs *jobs, const struct planning *own)
{
    size_t count;
    struct planning *runs = planning_turns_runs(jobs, &count);

    for (size_t i = 0; i < count; i++) {
        struct planning *other = &runs[i];
        int64_t *grown;

        if (other == own || !other->job || !other->running || other->uid != own->uid ||
            strcmp(other->digest, own->digest) != 0)
            continue;
        grown = realloc(other->waiting, (other->waiting_count + 1) * sizeof *grown);
        if (!grown)
            return false;
        other->waiting = grown;
        grown[other->waiting_count++] = own->job;
        return true;
    }
    return false;
}

static void on_looked_up(void *data, int result, const struct error *error)
{
    struct details_read *read = data;
    struct jobs *jobs = read->jobs;
    struct job *job = jobs->stopping ? NULL : job_table_find(jobs->table, read->id);
    struct planning *planning = job ? planning_turns_find(jobs, read->id) : NULL;

    if (planning) {
        const struct recent_plan *recent =
            result == 0 ? recent_plans_find(jobs, job, read->digest) : NULL;
        struct json_object *plan = read->plan ? read->plan : recent ? recent->plan : NULL;

        snprintf(planning->digest, sizeof planning->digest, "%s", read->digest);
        if (result < 0) {
            planning_turns_release(planning);
            job_details_unread(jobs, job, result, error);
        } else if (recent && !recent->plan) {
            planning_turns_release(planning);
            job_fail(jobs, job, recent->message, NULL);
        } else if (plan && plan_devices_are_covered(jobs, job, plan)) {
            planning_turns_release(planning);
            job_is_planned(jobs, job, plan);
        } else if (planning_join(jobs, planning)) {
            planning_turns_release(planning);
        } else {
            planning_run(jobs, job, planning, read->details);
        }
    }
    if (!jobs->stopping)
        jobs_plan(jobs);
    details_read_free(read);
}

void planning_begin(struct jobs *jobs)
{
    struct planning *planning;
    struct job *job;

    if (jobs->stopping || !jobs->loaded || device_backends_pending(jobs->daemon))
        return;
    while ((planning = planning_turns_find(jobs, 0)) && (job = planning_turns_next(jobs))) {
        struct details_read *read;

        if (job->workload->planned &&
            plan_devices_are_covered(jobs, job, NULL)) { /* another job's plan covers it */
            job_queue_remove(job);
            job_queue_after(jobs, job, 0);
            jobs_dispatch(jobs);
            continue;
        }
        read = memory_zero(sizeof *read);

        job_queue_remove(job);
        planning->job = job->id;
        planning->uid = job->uid;
        read->jobs = jobs;
        read->id = job->id;
        read->wants_plan = true;
        store_read(jobs->daemon->store, details_read_work, on_looked_up, read);
    }
}

size_t jobs_passing_pids(const struct daemon *daemon, pid_t *pids, size_t limit)
{
    size_t count = 0, run_count;
    const struct planning *runs = planning_turns_runs(daemon->jobs, &run_count);

    for (size_t i = 0; i < run_count && count < limit; i++) {
        const struct planning *planning = &runs[i];
        const struct job *job =
            planning->job ? job_table_find(daemon->jobs->table, planning->job) : NULL;

        if (job && job->attempt && job->attempt->planning && job->attempt->claim.pid > 0)
            pids[count++] = job->attempt->claim.pid;
    }
    if (calibrator_pid(daemon->jobs) && count < limit)
        pids[count++] = calibrator_pid(daemon->jobs);
    return count;
}

/* ---- the planning run ------------------------------------------------------------------------ */

static void on_planning_gone(struct attempt *attempt)
{
    (void)attempt; /* it had no device */
}

static void take_plan(struct jobs *jobs, struct job *job, const struct planning *planning,
                      struct json_object *plan)
{
    struct transition *transition = transition_new(jobs, job);

    recent_plans_keep(jobs, planning, NULL, plan);
    transition->update.changes_wait = true;
    transition->update.wait_reason = WAIT_DEVICE_BUSY;
    snprintf(transition->update.reason, sizeof transition->update.reason,
             "planned; waits for a device");
    transition->update.plan_uid = job->uid;
    snprintf(transition->update.plan_digest, sizeof transition->update.plan_digest, "%s",
             planning->digest);
    transition->update.plan = memory_copy_text(json_text(plan, NULL));
    job->wait_reason = WAIT_DEVICE_BUSY;
    transition_store(transition);
    job_is_planned(jobs, job, plan);
}

/* Tells the planning run about the machine: the CPU's calibration, and the devices beside the CPU
 * that the plan must cover. */
static void on_prepare(struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct attempt_launch *launch = &attempt->launch;
    const char *known = calibrations_find(jobs->calibrations, DEVICE_HOST, launch->threads);

    launch->also = plan_devices_describe(jobs, job_table_find(jobs->table, launch->job));
    launch->calibration = memory_copy_text(known);
}

static void describe_timeout(const struct attempt *attempt, char *reason)
{
    char limit[32];

    snprintf(reason, JOB_REASON_MAX,
             "its plan was not made within %s (PlanTimeout): check that its data can be read; for "
             "a very large data set, raise PlanTimeout",
             text_format_duration(attempt->time_limit, limit, sizeof limit));
}

static void on_planned(struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct job *job = attempt->job;
    struct planning *planning = planning_turns_find(jobs, attempt->job_id), planned;
    struct attempt_end end = job_describe_end(attempt, job);
    struct attempt_verdict verdict = attempt_judge(&end);

    planned = *planning; /* with its list of waiting jobs */
    *planning = (struct planning){0};
    job->attempt = NULL;
    attempt->job = NULL;
    if (attempt->never_started && attempt->intent == ENDING_NONE) {
        verdict = job_judge_launch(job, attempt, "planning could not be started");
    } else if (verdict.ending == ENDING_TIMED_OUT) {
        describe_timeout(attempt, verdict.reason);
    } else if (verdict.state == JOB_DONE && !attempt->report.plan) {
        verdict.state = JOB_FAILED;
        snprintf(verdict.reason, sizeof verdict.reason, "the planning run made no plan");
    }
    if (job->ended) {
        job_forget(jobs, job);
    } else if (verdict.state == JOB_DONE) {
        take_plan(jobs, job, &planned, attempt->report.plan);
    } else if (verdict.state == JOB_QUEUED) {
        job->retries += verdict.counts_as_retry;
        job_set_waiting(jobs, job, WAIT_BACKOFF, verdict.reason, NULL);
        job_queue_after(jobs, job, verdict.delay);
    } else {
        recent_plans_keep(jobs, &planned, verdict.reason, NULL);
        job_fail(jobs, job, verdict.reason, NULL);
    }
    planning_turns_wake(jobs, &planned);
    if (attempt->launch.files.weights)
        checkpoint_sweep(jobs->daemon, attempt->job_id, attempt->number);
    attempt_finish(attempt);
    jobs_plan(jobs);
    calibrator_tend(jobs);
}

static const struct attempt_events planning_events = {
    .prepare = on_prepare, .gone = on_planning_gone, .ended = on_planned};

void planning_begin_anew(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;

    for (size_t i = 0; i < jobs->table->bucket_count; i++) {
        for (struct job *job = jobs->table->buckets[i]; job; job = job->next_in_bucket) {
            if (!job->class || job->kind != JOB_NATIVE || plan_devices_are_covered(jobs, job, NULL))
                continue;
            job_classes_remove(jobs->classes, job);
            job_queue_after(jobs, job, 0);
        }
    }
    jobs_plan(daemon->jobs);
    jobs_dispatch(daemon->jobs);
    calibrator_tend(daemon->jobs);
}
