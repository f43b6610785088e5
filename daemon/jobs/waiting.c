/* waiting.c: see waiting.h. A job's row keeps the sentence of the moment when the kind of its
 * reason last changed. Which jobs are in its way changes more often, and for thousands of jobs at
 * once, so that sentence is made when a client asks. */
#include "daemon/jobs/waiting.h"

#include "daemon/attempts/attempt.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/groups.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_default.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/snapshot.h"
#include "daemon/work/job_table.h"
#include "scheduler/policy.h"

#include <stdio.h>

enum wait_reason jobs_wait_reason_of(enum policy_verdict verdict)
{
    switch (verdict) {
    case POLICY_WAIT_MEMORY:
        return WAIT_MEMORY;
    case POLICY_WAIT_DRAINING:
        return WAIT_DRAINING;
    case POLICY_WAIT_RESERVED:
    case POLICY_WAIT_RESERVATION:
        return WAIT_RESERVED;
    case POLICY_WAIT_USER_LIMIT:
        return WAIT_USER_LIMIT;
    case POLICY_IMPOSSIBLE:
        return WAIT_DEVICE_LOST;
    default:
        return WAIT_DEVICE_BUSY;
    }
}

bool jobs_explain_lost(const struct jobs *jobs, const struct job *job, char *text, size_t size)
{
    const struct devices *devices = jobs->daemon->devices;

    for (size_t d = 0; d < devices->count; d++) {
        const struct device *device = devices->list[d];

        if (device->health != DEVICE_LOST ||
            !job_needs_allow(job->needs, (enum job_kind)job->kind, device) ||
            !job_default_allows(jobs, job, device))
            continue;
        snprintf(text, size, "waits for %s, which is lost%s%s", device->name,
                 device->health_reason[0] ? ": " : "", device->health_reason);
        return true;
    }
    return false;
}

/* A job that is leaving the device because of a decision; 0: none. */
static int64_t leaving(const struct device *device)
{
    for (size_t i = 0; i < device->claim_count; i++)
        if (device->claims[i]->attempt->intent == ENDING_PREEMPTED ||
            device->claims[i]->attempt->suspension.state == SUSPENSION_BEGINS)
            return device->claims[i]->attempt->job_id;
    return 0;
}

/* The same for all devices of the ledger. On those that are other hardware only memory is in the
 * way. */
static int64_t leaving_ledger(const struct device *device, uint64_t memory)
{
    struct device *ledger = device_ledger(device), *sharer;
    int64_t other = leaving(device);

    if (!other && device != ledger &&
        (device->same_hardware || memory > device_memory_free(device)))
        other = leaving(ledger);
    for (sharer = ledger->sharers; sharer && !other; sharer = sharer->next_sharer)
        if (sharer != device &&
            ((sharer->same_hardware && (device == ledger || device->same_hardware)) ||
             memory > device_memory_free(device)))
            other = leaving(sharer);
    return other;
}

/* Whether the job has to wait until what an ended attempt held of the device is free. */
static bool is_still_held(const struct device *device, uint64_t memory)
{
    const struct device *ledger = device_ledger(device);
    uint64_t free = device_memory_free(device);

    return ledger->memory_leaving > 0 && free != UINT64_MAX &&
           ledger->memory_leaving + memory > free;
}

/* The job starts, unless another job has yet to leave its devices. */
static enum wait_reason explain_start(const struct jobs *jobs, size_t index, char *text,
                                      size_t size)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;
    const struct policy_placement *placement = &snapshot->decision.placements[index];

    for (int i = 0; i < snapshot->jobs[index].devices; i++) {
        const struct device *device = jobs->daemon->devices->list[placement->devices[i]];
        uint64_t memory = snapshot->jobs[index].estimates[device->type].memory;
        int64_t other = leaving_ledger(device, memory);

        bool unmeasured = device_is_unmeasured(device);

        if (!other && !unmeasured && !is_still_held(device, memory))
            continue;
        if (unmeasured)
            snprintf(text, size,
                     "takes %s as soon as it is known what the jobs hold that run there since "
                     "before the restart",
                     device->name);
        else if (other)
            snprintf(text, size, "takes %s as soon as job %lld has left it", device->name,
                     (long long)other);
        else
            snprintf(text, size, "takes %s as soon as the memory of the last job there is free",
                     device->name);
        return WAIT_DEVICE_BUSY;
    }
    return WAIT_NONE;
}

/* Whether the job may wait for a change of the machine. A job that has run can run here: the limit
 * or device that has changed since then may change back, and its progress is not thrown away. A job
 * that ran out of memory needs more than it had, so it may not. */
static bool may_wait_for_changes(const struct job *job)
{
    return job->attempt_number > 0 && job->memory_failures == 0;
}

static bool is_too_large(const struct jobs_snapshot *snapshot, size_t index)
{
    struct policy_candidate candidates[DEVICES_MAX];
    size_t count =
        policy_candidates(&snapshot->policy, &snapshot->decision, index, candidates, DEVICES_MAX);

    for (size_t i = 0; i < count; i++)
        if (candidates[i].verdict == POLICY_CANDIDATE_TOO_LARGE)
            return true;
    return false;
}

/* No device can take the job: says which lost device or other change it waits for, if any. */
static enum wait_reason explain_impossible(const struct jobs *jobs, const struct job *job,
                                           size_t index, char *text, size_t size)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;

    if (jobs_explain_lost(jobs, job, text, size))
        return WAIT_DEVICE_LOST;
    if (job_is_suspended(job)) {
        const struct attempt_suspension *suspension = &job->attempt->suspension;
        char names[ATTEMPT_DEVICES_TEXT_MAX];

        snprintf(text, size, "is suspended, and waits for %s",
                 suspension->device_count
                     ? devices_name((const struct device *const *)suspension->devices,
                                    suspension->device_count, names, sizeof names)
                     : "the GPU that it had, which is not there since traind was restarted");
        return WAIT_DEVICE_LOST;
    }
    policy_explain(&snapshot->policy, &snapshot->decision, index, text, size);
    if (!may_wait_for_changes(job))
        return WAIT_NONE;
    return is_too_large(snapshot, index) ? WAIT_MEMORY : WAIT_DEVICE_LOST;
}

enum wait_reason jobs_explain_waiting(const struct jobs *jobs, const struct job *job, size_t index,
                                      char *text, size_t size)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;
    enum policy_verdict verdict = snapshot->decision.placements[index].verdict;

    if (verdict == POLICY_START)
        return explain_start(jobs, index, text, size);
    if (verdict == POLICY_IMPOSSIBLE)
        return explain_impossible(jobs, job, index, text, size);
    policy_explain(&snapshot->policy, &snapshot->decision, index, text, size);
    return jobs_wait_reason_of(verdict);
}

/* The index in the latest decision of the job, or else of the last job of its class there.
 * SIZE_MAX: its class is not in the decision. */
static size_t find_in_snapshot(const struct jobs_snapshot *snapshot, const struct job *job)
{
    const struct job_class *class = job->class;
    size_t last = class->first_in_snapshot + class->count_in_snapshot;

    if (class->snapshot != snapshot->number || class->count_in_snapshot == 0)
        return SIZE_MAX;
    for (size_t i = class->first_in_snapshot; i < last; i++)
        if (snapshot->jobs[i].id == job->id)
            return i;
    return last - 1;
}

enum wait_reason jobs_explain_queued(const struct daemon *daemon, int64_t id, char *text,
                                     size_t size)
{
    struct jobs *jobs = daemon->jobs;
    const struct job *job = job_table_find(jobs->table, id);
    size_t index;

    if (!job || job->ended || job->state != JOB_QUEUED)
        return WAIT_NONE;
    if (job_group_explain(job, text, size))
        return WAIT_GROUP_LIMIT;
    if (!job->class || (!jobs->snapshot->decided && jobs_snapshot_decide(jobs, NULL) < 0))
        return WAIT_NONE;
    index = find_in_snapshot(jobs->snapshot, job);
    return index == SIZE_MAX ? WAIT_NONE : jobs_explain_waiting(jobs, job, index, text, size);
}
