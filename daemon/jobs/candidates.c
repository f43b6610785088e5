/* candidates.c: see candidates.h. */
#include "daemon/jobs/candidates.h"

#include "base/clock.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_default.h"
#include "daemon/jobs/job_exclusion.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/snapshot.h"
#include "daemon/jobs/waiting.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"
#include "scheduler/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct json_object *number_or_null(uint64_t value, uint64_t unknown)
{
    return value == unknown ? NULL : json_object_new_int64((int64_t)value);
}

/* Says what the verdict alone does not tell: which key excludes the device, or that the job is
 * pinned to it. "": nothing. */
static char *explain_needs(const struct jobs *jobs, const struct job *job,
                           const struct device *device, enum policy_candidate_verdict verdict,
                           char *text, size_t size)
{
    *text = '\0';
    if (verdict == POLICY_CANDIDATE_NOT_ALLOWED && !job_default_allows(jobs, job, device) &&
        job_needs_allow(job->needs, (enum job_kind)job->kind, device) &&
        *job_default_explain(jobs, job, text, size))
        return text;
    if (verdict == POLICY_CANDIDATE_NOT_ALLOWED)
        job_exclusion_explain(job->needs, (enum job_kind)job->kind, device, text, size);
    else if (verdict == POLICY_CANDIDATE_CHOSEN && job->needs->pinned)
        snprintf(text, size,
                 "the job is pinned to it: trainctl move JOB auto lets it go elsewhere");
    return text;
}

static struct json_object *describe_candidate(const struct jobs *jobs, const struct job *job,
                                              const struct policy_candidate *candidate)
{
    const struct device *device = jobs->daemon->devices->list[candidate->device];
    struct json_object *json = json_object_new_object();
    enum workload_basis basis = BASIS_UNKNOWN;
    struct workload_speed speed = job_speed(job, device, &basis);
    bool runs = isfinite(candidate->seconds);
    const char *obstacle = job_obstacle(job, device);
    enum policy_candidate_verdict verdict = candidate->verdict;
    char because[POLICY_REASON_MAX];

    /* for the policy the job merely may not go there */
    if (obstacle && job_needs_allow(job->needs, (enum job_kind)job->kind, device))
        verdict = POLICY_CANDIDATE_CANNOT_RUN;
    json_set_string(json, "device", device->name);
    json_set_string(json, "kind", device->driver->kind.name);
    json_set_double(json, "seconds", runs ? candidate->seconds : NAN);
    json_set_double(json, "step_seconds", runs ? speed.step_seconds : NAN);
    json_set_double(json, "deviation", runs ? candidate->deviation : NAN);
    json_set_string(json, "basis", workload_basis_to_string(basis));
    json_set(json, "runs", number_or_null((uint64_t)job->workload->runs, 0));
    json_set(json, "memory", number_or_null(candidate->memory, 0));
    json_set(json, "headroom", number_or_null(candidate->memory_free, UINT64_MAX));
    json_set_string(json, "verdict", policy_candidate_verdict_to_string(verdict));
    json_set_string(json, "obstacle", verdict == POLICY_CANDIDATE_CANNOT_RUN ? obstacle : NULL);
    explain_needs(jobs, job, device, verdict, because, sizeof because);
    json_set_string(json, "because", *because ? because : NULL);
    json_set(json, "other", number_or_null((uint64_t)candidate->other, 0));
    return json;
}

static bool names(const char *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

/* Lists each kind of device that the job names and this machine lacks as if it were a device. */
static void add_absent_kinds(const struct jobs *jobs, const struct job *job,
                             struct json_object *list)
{
    const struct devices *devices = jobs->daemon->devices;
    const struct job_needs *needs = job->needs;

    for (size_t k = 0; devices->drivers[k]; k++) {
        const char *name = devices->drivers[k]->kind.name;
        struct json_object *json;
        bool named = (needs->prefer && strcmp(needs->prefer, name) == 0) ||
                     (needs->force && strcmp(needs->force, name) == 0) ||
                     names(needs->allow, needs->allow_count, name);

        for (size_t i = 0; named && i < devices->count; i++)
            named = devices->list[i]->driver != devices->drivers[k];
        if (!named)
            continue;
        json = json_object_new_object();
        json_set_string(json, "device", name);
        json_set_string(json, "kind", name);
        json_set_string(json, "verdict", policy_candidate_verdict_to_string(POLICY_CANDIDATE_LOST));
        json_set_string(json, "absence", devices_obstacle(jobs->daemon, name));
        json_object_array_add(list, json);
    }
}

/* The verdict; `text` receives its sentence. */
static const char *explain_verdict(const struct jobs *jobs, size_t index, char *text, size_t size)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;
    enum policy_verdict verdict = snapshot->decision.placements[index].verdict;

    if (verdict == POLICY_IMPOSSIBLE &&
        jobs_explain_lost(jobs, snapshot->entries[index].job, text, size))
        return "wait_lost";
    policy_explain(&snapshot->policy, &snapshot->decision, index, text, size);
    return policy_verdict_to_string(verdict);
}

struct json_object *jobs_describe_decision(const struct jobs *jobs, size_t index)
{
    const struct jobs_snapshot *snapshot = jobs->snapshot;
    const struct policy_placement *placement = &snapshot->decision.placements[index];
    const struct job *job = snapshot->entries[index].job;
    struct policy_candidate candidates[DEVICES_MAX];
    size_t count =
        policy_candidates(&snapshot->policy, &snapshot->decision, index, candidates, DEVICES_MAX);
    struct json_object *json = json_object_new_object(), *list = json_object_new_array();
    struct device *devices[JOB_DEVICES_MAX];
    char text[POLICY_REASON_MAX], names[ATTEMPT_DEVICES_TEXT_MAX];
    int device_count = placement->devices ? snapshot->jobs[index].devices : 0;

    for (int i = 0; i < device_count; i++)
        devices[i] = jobs->daemon->devices->list[placement->devices[i]];
    json_set_double(json, "time", clock_now());
    json_set_string(json, "verdict", explain_verdict(jobs, index, text, sizeof text));
    json_set_string(json, "device",
                    device_count ? devices_name((const struct device *const *)devices, device_count,
                                                names, sizeof names)
                                 : NULL);
    json_set_string(json, "sentence", text);
    for (size_t i = 0; i < count; i++)
        json_object_array_add(list, describe_candidate(jobs, job, &candidates[i]));
    add_absent_kinds(jobs, job, list);
    json_set(json, "candidates", list);
    return json;
}

struct json_object *jobs_explain(struct jobs *jobs, int64_t id)
{
    struct job *job = job_table_find(jobs->table, id);
    size_t of_class = SIZE_MAX;

    if (!job || !job->class || jobs_snapshot_decide(jobs, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < jobs->snapshot->policy.job_count; i++) {
        if (jobs->snapshot->entries[i].job == job)
            return jobs_describe_decision(jobs, i);
        if (jobs->snapshot->entries[i].class == job->class)
            of_class = i; /* a job of the same class that goes first */
    }
    return of_class == SIZE_MAX ? NULL : jobs_describe_decision(jobs, of_class);
}
