/* decide.c: see decide.h. A decision becomes due when an event may change it: a submission, a plan,
 * an end, a change of a device, a timer. It is made once the loop has handled its pending events,
 * so many events at once cost one decision. */
#include "daemon/jobs/decide.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/calibrator.h"
#include "daemon/jobs/candidates.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/move.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/jobs/snapshot.h"
#include "daemon/jobs/start.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/waiting.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"
#include "scheduler/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LOAD_AHEAD = 15,                        /* jobs of a class: four levels of a heap */
    DECIDE_PAUSE_MILLISECONDS = 1000,       /* between decisions that time alone brings about */
    DECIDE_PAUSE_MAX_MILLISECONDS = 3600000 /* the longest pause while something waits */
};

struct decider {
    uv_timer_t timer; /* while time alone may change a decision */
    struct jobs_decisions made;
};

/* ---- one job --------------------------------------------------------------------------------- */

static enum preemption preemption_of(const struct jobs *jobs, size_t index)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;
    const struct attempt *attempt = snapshot->entries[index].attempt;
    const struct device *device = attempt->claim.devices[0];

    if (device_health_of_hardware(device) == DEVICE_LOST)
        return PREEMPTION_DEVICE_LOST;
    if (device_health_of_hardware(device) != DEVICE_HEALTHY)
        return PREEMPTION_DRAINED;
    if (device_or_ledger_is_over_limit(device))
        return PREEMPTION_MEMORY;
    return snapshot->decision.placements[index].verdict == POLICY_MOVE ? PREEMPTION_MOVED
                                                                       : PREEMPTION_PRIORITY;
}

/* Says in a sentence why the job leaves. Only the table of devices knows whether the device has
 * become too small for this job alone. */
static void explain_leaving(const struct jobs *jobs, size_t index, enum preemption preemption,
                            char *text, size_t size)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;
    const struct attempt *attempt = snapshot->entries[index].attempt;
    const struct device *device = attempt->claim.devices[0];
    double most = device->high_watermark_ratio * (double)device->memory_total;
    char held[32], limit[32];

    if (preemption == PREEMPTION_MEMORY && (double)attempt->claim.memory_booked > most &&
        snapshot->decision.placements[index].verdict == POLICY_PREEMPT)
        snprintf(text, size, "leaves %s: it needs %s, and %s may hold %s in all by now",
                 device->name, text_format_bytes(attempt->claim.memory_booked, held, sizeof held),
                 device->name, text_format_bytes((uint64_t)most, limit, sizeof limit));
    else
        policy_explain(&snapshot->policy, &snapshot->decision, index, text, size);
}

/* Makes a running job leave its devices: it writes a checkpoint and is queued again. */
static void preempt(struct jobs *jobs, size_t index)
{
    struct jobs_snapshot *snapshot = jobs->snapshot;
    char reason[POLICY_REASON_MAX];
    struct json_object *decision JSON_AUTO = NULL;
    struct job_change change = {.preemption = preemption_of(jobs, index), .reason = reason};

    explain_leaving(jobs, index, change.preemption, reason, sizeof reason);
    decision = jobs_describe_decision(jobs, index);
    json_set_string(decision, "sentence", reason);
    change.decision = json_text(decision, NULL);
    job_preempt(jobs, snapshot->entries[index].job, &change);
}

/* Starts the job, unless another job has yet to leave its devices. */
static void start(struct jobs *jobs, size_t index)
{
    struct jobs_snapshot *snapshot = jobs->snapshot;
    const struct policy_placement *placement = &snapshot->decision.placements[index];
    const struct policy_job *entry = &snapshot->jobs[index];
    struct job *job = snapshot->entries[index].job;
    struct device *devices[JOB_DEVICES_MAX];
    struct json_object *decision JSON_AUTO = NULL;
    enum wait_reason wait_reason;
    char reason[POLICY_REASON_MAX];
    bool starved;

    wait_reason = jobs_explain_waiting(jobs, job, index, reason, sizeof reason);
    if (wait_reason != WAIT_NONE) {
        job_set_waiting(jobs, job, wait_reason, reason, NULL);
        return;
    }
    for (int i = 0; i < entry->devices; i++)
        devices[i] = jobs->daemon->devices->list[placement->devices[i]];
    policy_explain(&snapshot->policy, &snapshot->decision, index, reason, sizeof reason);
    decision = jobs_describe_decision(jobs, index);
    starved = placement->starving;
    job_start(jobs, job, devices, entry->devices, reason, json_text(decision, NULL));
    if (job->attempt)
        job->attempt->starved = starved;
}

/* For a job that no device can take now: drops its pin, or else the list of devices that it avoids,
 * because it is more important that the job runs. True: something was dropped and a new decision is
 * due. A job that found its results to differ on another device (`disagreed`) keeps its pin and
 * waits for its lost device. */
static bool widen(struct jobs *jobs, struct job *job)
{
    char lost[POLICY_REASON_MAX];

    if (job->needs->pinned && !(job->disagreed && jobs_explain_lost(jobs, job, lost, sizeof lost)))
        job_pin(jobs, job, NULL); /* only in memory: its row keeps the pin */
    else if (job->needs->avoid_count && !job->needs->pinned)
        job_forgive(jobs, job);
    else
        return false;
    jobs_dispatch(jobs);
    return true;
}

static void wait_or_fail(struct jobs *jobs, size_t index)
{
    enum policy_verdict verdict = jobs->snapshot->decision.placements[index].verdict;
    struct job *job = jobs->snapshot->entries[index].job;
    struct json_object *decision JSON_AUTO = NULL;
    enum wait_reason wait_reason;
    char reason[POLICY_REASON_MAX];

    if (verdict != POLICY_IMPOSSIBLE && job->wait_reason == jobs_wait_reason_of(verdict))
        return;
    if (verdict == POLICY_IMPOSSIBLE && widen(jobs, job))
        return;
    wait_reason = jobs_explain_waiting(jobs, job, index, reason, sizeof reason);
    if (wait_reason != WAIT_NONE && job->wait_reason == wait_reason)
        return;
    if (wait_reason != WAIT_DEVICE_LOST)
        decision = jobs_describe_decision(jobs, index);
    if (wait_reason == WAIT_NONE) {
        job_fail(jobs, job, reason, json_text(decision, NULL));
        return;
    }
    job_set_waiting(jobs, job, wait_reason, reason, decision ? json_text(decision, NULL) : NULL);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Whether the specifications of all jobs that are to start have been read; reads those that are
 * missing. These jobs start together. If a part of them started first, a decision in between might
 * place the others differently, and the same events would not give the same history. */
static bool read_those_that_start(struct jobs *jobs)
{
    struct jobs_snapshot *snapshot = jobs->snapshot;
    bool ready = true;

    for (size_t i = snapshot->running_count; i < snapshot->policy.job_count; i++) {
        struct job *job;

        if (snapshot->decision.placements[i].verdict != POLICY_START)
            continue;
        job = snapshot->entries[i].job;
        if (job_is_suspended(job) || (job->details && job->details->spec))
            continue;
        job_details_load(jobs, job);
        ready = false;
    }
    return ready;
}

static void carry_out(struct jobs *jobs)
{
    struct jobs_snapshot *snapshot = jobs->snapshot;
    bool ready;

    for (size_t i = 0; i < snapshot->running_count; i++) {
        enum policy_verdict verdict = snapshot->decision.placements[i].verdict;

        if (snapshot->entries[i].job && (verdict == POLICY_MOVE || verdict == POLICY_PREEMPT) &&
            snapshot->jobs[i].movable)
            preempt(jobs, i);
    }
    ready = read_those_that_start(jobs);
    for (size_t i = snapshot->running_count; i < snapshot->policy.job_count; i++) {
        if (snapshot->decision.placements[i].verdict != POLICY_START)
            wait_or_fail(jobs, i);
        else if (ready)
            start(jobs, i);
    }
}

/* Reads the specifications of the class's next jobs: those of the upper levels of its heap, at once
 * where one of the next two is missing. */
static void load_of_class(struct jobs *jobs, const struct job_class *class)
{
    const struct job_queue *waiting = &class->waiting;
    bool missing = false;

    for (size_t k = 0; k < 3 && k < waiting->count; k++)
        missing |= !waiting->jobs[k]->details && !waiting->jobs[k]->loading;
    for (size_t k = 0; missing && k < LOAD_AHEAD && k < waiting->count; k++)
        job_details_load(jobs, waiting->jobs[k]);
}

/* Reads the specifications of the next jobs before there is room for them. */
static void load_ahead(struct jobs *jobs)
{
    size_t count;
    struct job_class *const *classes = job_classes_sorted(jobs->classes, &count);

    for (size_t i = 0; i < count && i < 3; i++)
        load_of_class(jobs, classes[i]);
}

static void on_decide_timer(uv_timer_t *timer)
{
    jobs_dispatch(timer->data);
}

/* A device that is not measured counts as measured after a while. */
static bool some_are_unmeasured(const struct jobs *jobs)
{
    for (size_t d = 0; d < jobs->daemon->devices->count; d++)
        if (device_is_unmeasured(jobs->daemon->devices->list[d]))
            return true;
    return false;
}

/* Seconds until time alone may change the decision. */
static double seconds_to_next(const struct jobs *jobs)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;
    double next = snapshot->decision.next_seconds;

    if (snapshot->decision.memory_is_awaited || some_are_unmeasured(jobs))
        return 0;
    for (size_t i = 0; i < snapshot->running_count && jobs->classes->job_count; i++) {
        const struct job *job = snapshot->entries[i].job;

        if (job && job->state == JOB_STARTING) /* it is not known when it will run */
            next = fmin(next, jobs->daemon->config.move_after_seconds);
        else if (job && !snapshot->jobs[i].movable)
            next = fmin(next, job_seconds_to_movable(jobs, job));
    }
    return next;
}

static void set_timer(struct jobs *jobs)
{
    double next = 1000 * seconds_to_next(jobs);

    if (!isfinite(next)) {
        uv_timer_stop(&jobs->decider->timer);
        return;
    }
    next = fmin(fmax(next, DECIDE_PAUSE_MILLISECONDS), DECIDE_PAUSE_MAX_MILLISECONDS);
    uv_timer_start(&jobs->decider->timer, on_decide_timer, (uint64_t)next, 0);
}

static void make_decision(struct jobs *jobs)
{
    int result;

    jobs_measure_outside(jobs);
    result = jobs_snapshot_decide(jobs, NULL);
    if (result < 0) {
        log_error("no decision could be made (%s); the next event brings another",
                  strerror(-result));
        return;
    }
    set_timer(jobs); /* before the jobs change */
    carry_out(jobs);
    load_ahead(jobs);
    details_read_gathered(jobs);
}

void jobs_decide(struct jobs *jobs)
{
    struct jobs_decisions *decisions = &jobs->decider->made;
    double began = clock_seconds(CLOCK_THREAD_CPUTIME_ID);

    make_decision(jobs);
    calibrator_tend(jobs);
    decisions->last_seconds = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - began;
    decisions->longest_seconds = fmax(decisions->longest_seconds, decisions->last_seconds);
    decisions->seconds += decisions->last_seconds;
    decisions->count++;
}

static bool attempts_are_changing(const struct device *device)
{
    for (size_t i = 0; i < device->claim_count; i++) {
        const struct job *job = device->claims[i]->attempt->job;

        if (device->claims[i]->suspended)
            continue;
        if (!job || job->state != JOB_RUNNING || device->claims[i]->attempt->intent != ENDING_NONE)
            return true;
    }
    return false;
}

struct jobs_decisions jobs_decisions(const struct daemon *daemon)
{
    const struct jobs *jobs = daemon->jobs;
    struct jobs_decisions decisions = jobs->decider->made;

    decisions.due = dispatch_is_due(jobs) || details_are_loading(jobs) ||
                    store_pending(daemon->store) > 0 || planning_turns_are_under_way(jobs);
    for (size_t d = 0; d < daemon->devices->count; d++)
        decisions.due |= attempts_are_changing(daemon->devices->list[d]);
    return decisions;
}

uint64_t decide_count(const struct jobs *jobs)
{
    return jobs->decider->made.count;
}

void decide_start(struct jobs *jobs)
{
    jobs->decider = memory_zero(sizeof *jobs->decider);
    uv_timer_init(jobs->daemon->loop, &jobs->decider->timer);
    jobs->decider->timer.data = jobs;
}

void decide_stop(struct jobs *jobs)
{
    if (jobs->decider)
        uv_close((uv_handle_t *)&jobs->decider->timer, NULL);
}
