/* policy_explain.c: the sentences of policy_explain(). */
#include "base/text.h"
#include "scheduler/policy_internal.h"

#include <math.h>
#include <stdio.h>

/* Writes "V100 2 h 5 min, cpu 3 d": the job's time on each type that can run it. */
static void describe_candidates(const struct policy_snapshot *snapshot,
                                const struct policy_job *job, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int type = 0; type < snapshot->type_count && used < size; type++) {
        char duration[32];

        if (!isfinite(job->estimates[type].seconds))
            continue;
        text_format_duration(job->estimates[type].seconds, duration, sizeof duration);
        used += (size_t)snprintf(text + used, size - used, "%s%s %s%s", used ? ", " : "",
                                 snapshot->type_names[type],
                                 job->estimates[type].deviation > 0.1 ? "about " : "", duration);
    }
}

static void describe_devices(const struct policy_snapshot *snapshot, const int *devices, int count,
                             char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int d = 0; d < count && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", d ? ", " : "",
                                 snapshot->devices[devices[d]].name);
}

/* The device that a running job must leave because it has too little memory for that job and the
 * ones that stay; NULL: there is none. */
static const struct policy_device *device_too_full(const struct policy_snapshot *snapshot,
                                                   const struct policy_decision *decision,
                                                   const struct policy_job *job)
{
    for (int d = 0; job->on && d < job->devices; d++) {
        const struct policy_device *device = &snapshot->devices[job->on[d]];
        uint64_t limit = device_limit(device, true), need = job->estimates[device->type].memory;

        if (need > limit || decision->loads[job->on[d]].memory > limit - need)
            return device;
    }
    return NULL;
}

/* Whether the job might get this device, now or at another time. */
static bool might_take(const struct policy_candidate *candidate)
{
    return candidate->verdict != POLICY_CANDIDATE_NOT_ALLOWED &&
           candidate->verdict != POLICY_CANDIDATE_CANNOT_RUN &&
           candidate->verdict != POLICY_CANDIDATE_TOO_LARGE;
}

/* One placed job, and the verdict of each device for it. */
struct choice {
    const struct policy_snapshot *snapshot;
    const struct policy_job *job;
    const struct policy_placement *placement;
    struct policy_candidate candidates[POLICY_DEVICES_MAX];
    size_t count;
    bool preferred; /* it got devices that it prefers */
};

/* A better device than the job got: one that it prefers, if it got none of these, else a faster
 * one. NULL: there is none. */
static const struct policy_candidate *find_better(const struct choice *choice)
{
    const struct policy_job *job = choice->job;
    double least = choice->job->estimates[choice->placement->type].seconds;
    const struct policy_candidate *better = NULL;

    for (size_t i = 0; i < choice->count; i++) {
        const struct policy_candidate *candidate = &choice->candidates[i];
        double seconds = job->estimates[choice->snapshot->devices[candidate->device].type].seconds;
        bool wanted = !choice->preferred && job_prefers(job, candidate->device);
        bool first_wanted = wanted && !(better && job_prefers(job, better->device));

        if (candidate->verdict == POLICY_CANDIDATE_CHOSEN || !might_take(candidate))
            continue;
        if (better && job_prefers(job, better->device) && !wanted)
            continue;
        if (first_wanted || (choice->job->length_known && seconds < least)) {
            least = seconds;
            better = candidate;
        }
    }
    return better;
}

/* Writes why the job did not get the better device: the second half of "it would be better, but
 * …". */
static void explain_obstacle(const struct policy_candidate *candidate, char *text, size_t size)
{
    static const char *const obstacles[] = {
        [POLICY_CANDIDATE_BUSY] = "others gain more from it",
        [POLICY_CANDIDATE_FEW] = "too few of its kind are free",
        [POLICY_CANDIDATE_MEMORY] = "too little of its memory is free",
        [POLICY_CANDIDATE_DRAINING] = "it takes no further job",
        [POLICY_CANDIDATE_LOST] = "it is lost",
        [POLICY_CANDIDATE_RESTART] = "a move there does not pay",
        [POLICY_CANDIDATE_SLOWER] = "the job is predicted to end later there",
    };
    size_t verdict = (size_t)candidate->verdict;

    if (candidate->verdict == POLICY_CANDIDATE_BUSY && candidate->other)
        snprintf(text, size, "job %lld has it", (long long)candidate->other);
    else if (candidate->verdict == POLICY_CANDIDATE_RESERVED)
        snprintf(text, size, "it is held for job %lld, which waited too long",
                 (long long)candidate->other);
    else
        snprintf(text, size, "%s",
                 verdict < sizeof obstacles / sizeof *obstacles && obstacles[verdict]
                     ? obstacles[verdict]
                     : "all jobs together gain more so");
}

/* Explains a choice that only speed decided. */
static void explain_speed(const struct choice *choice, char *text, size_t size)
{
    const struct policy_candidate *better = find_better(choice);
    char obstacle[96];

    if (!better) {
        snprintf(text, size, "%s",
                 choice->job->length_known   ? "the fastest for it"
                 : choice->placement->shared ? "it has room for it"
                                             : "free for it");
        return;
    }
    explain_obstacle(better, obstacle, sizeof obstacle);
    if (!choice->preferred && job_prefers(choice->job, better->device))
        snprintf(text, size, "the job prefers %s, but %s",
                 choice->snapshot->devices[better->device].name, obstacle);
    else if (better->verdict == POLICY_CANDIDATE_SLOWER)
        snprintf(text, size, "it may be the fastest, which running it there shows");
    else
        snprintf(text, size, "%s would be faster, but %s",
                 choice->snapshot->devices[better->device].name, obstacle);
}

/* The lost device that a running job must leave; NULL: there is none. */
static const struct policy_device *device_lost(const struct policy_snapshot *snapshot,
                                               const struct policy_job *job)
{
    for (int d = 0; job->on && d < job->devices; d++)
        if (snapshot->devices[job->on[d]].lost)
            return &snapshot->devices[job->on[d]];
    return NULL;
}

/* Whether the job got devices that it prefers although it might have got others. */
static bool preference_decided(const struct choice *choice)
{
    for (size_t i = 0; choice->preferred && i < choice->count; i++)
        if (might_take(&choice->candidates[i]) &&
            !job_prefers(choice->job, choice->candidates[i].device))
            return true;
    return false;
}

static void explain_choice(const struct choice *choice, const struct policy_decision *decision,
                           char *text, size_t size)
{
    bool moves = choice->placement->verdict == POLICY_MOVE;
    const struct policy_device *full =
        moves ? device_too_full(choice->snapshot, decision, choice->job) : NULL;
    const struct policy_device *lost = moves ? device_lost(choice->snapshot, choice->job) : NULL;

    if (lost)
        snprintf(text, size, "%s is lost", lost->name);
    else if (full)
        snprintf(text, size, "others hold too much memory of %s", full->name);
    else if (choice->job->pinned)
        snprintf(text, size, "it is pinned there");
    else if (choice->placement->starving)
        snprintf(text, size, "it had waited too long");
    else if (preference_decided(choice))
        snprintf(text, size, "the job prefers %s", choice->job->devices == 1 ? "it" : "them");
    else
        explain_speed(choice, text, size);
}

static void explain_place(const struct policy_snapshot *snapshot,
                          const struct policy_decision *decision, size_t index, char *text,
                          size_t size)
{
    const struct policy_job *job = &snapshot->jobs[index];
    const struct policy_placement *placement = &decision->placements[index];
    const char *moves = placement->verdict == POLICY_MOVE ? "moves to " : "";
    struct choice choice;
    char devices[64], candidates[128], predicted[32], why[128];

    choice.snapshot = snapshot;
    choice.job = job;
    choice.placement = placement;
    choice.count =
        policy_candidates(snapshot, decision, index, choice.candidates, POLICY_DEVICES_MAX);
    choice.preferred = job_prefers(job, placement->devices[0]);
    explain_choice(&choice, decision, why, sizeof why);
    describe_devices(snapshot, placement->devices, job->devices, devices, sizeof devices);
    if (!job->length_known) {
        snprintf(text, size, "%s%s: %s; how long it takes is not known", moves, devices, why);
        return;
    }
    describe_candidates(snapshot, job, candidates, sizeof candidates);
    text_format_duration(placement->seconds, predicted, sizeof predicted);
    snprintf(text, size, "%s%s: %s; predicted %s (%s)%s", moves, devices, why, predicted,
             candidates, placement->shared ? "; shares it" : "");
}

/* ---- preempted jobs -------------------------------------------------------------------------- */

/* The job of the highest priority that gets one of the devices that the running job must leave.
 * SIZE_MAX: there is none. */
static size_t find_successor(const struct policy_snapshot *snapshot,
                             const struct policy_decision *decision, const struct policy_job *job)
{
    size_t successor = SIZE_MAX;

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *other = &snapshot->jobs[i];
        const int *devices = decision->placements[i].devices;

        for (int d = 0; devices && d < job->devices; d++)
            if (job_holds(devices, other->devices, job->on[d]) &&
                !job_holds(other->on, other->devices, job->on[d]) &&
                (successor == SIZE_MAX || other->priority > snapshot->jobs[successor].priority))
                successor = i;
    }
    return successor;
}

/* The id of the job that one of its devices is reserved for from now on; 0: none. */
static int64_t find_reservation(const struct policy_decision *decision,
                                const struct policy_job *job)
{
    for (int d = 0; d < job->devices; d++)
        if (decision->loads[job->on[d]].reserved_for)
            return decision->loads[job->on[d]].reserved_for;
    return 0;
}

static bool may_stay(const struct policy_job *job)
{
    for (int d = 0; d < job->devices; d++)
        if (!job_allows(job, job->on[d]))
            return false;
    return true;
}

static void explain_leaving(const struct policy_snapshot *snapshot,
                            const struct policy_decision *decision, size_t index, char *text,
                            size_t size)
{
    const struct policy_job *job = &snapshot->jobs[index];
    const struct policy_device *full = device_too_full(snapshot, decision, job);
    const struct policy_device *lost = device_lost(snapshot, job);
    size_t successor = find_successor(snapshot, decision, job);
    int64_t reserved = find_reservation(decision, job);
    char devices[64];

    describe_devices(snapshot, job->on, job->devices, devices, sizeof devices);
    if (lost)
        snprintf(text, size, "leaves %s, which is lost", lost->name);
    else if (full)
        snprintf(text, size, "leaves %s: others hold too much of its memory", full->name);
    else if (!may_stay(job))
        snprintf(text, size, "leaves %s, where it may not run any more", devices);
    else if (successor != SIZE_MAX)
        snprintf(text, size, "gives %s up to job %lld, %s", devices,
                 (long long)snapshot->jobs[successor].id,
                 decision->placements[successor].starving             ? "which had waited too long"
                 : snapshot->jobs[successor].priority > job->priority ? "whose priority is higher"
                 : job->devices == 1                                  ? "which gains more from it"
                                     : "which gains more from them");
    else if (reserved)
        snprintf(text, size, "gives %s up: held for job %lld, which waited too long", devices,
                 (long long)reserved);
    else if (job->user != POLICY_NONE && snapshot->users[job->user].device_max > 0)
        snprintf(text, size, "gives %s up: its user may have %d devices at the same time", devices,
                 snapshot->users[job->user].device_max);
    else
        snprintf(text, size, "gives %s up: all jobs together gain more so", devices);
}

/* ---- waiting jobs ---------------------------------------------------------------------------- */

/* Finds the device with that verdict and the most memory for the job; false: no device has it. */
static bool find_largest(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision, size_t index,
                         enum policy_candidate_verdict verdict, struct policy_candidate *largest)
{
    struct policy_candidate candidates[POLICY_DEVICES_MAX];
    size_t count = policy_candidates(snapshot, decision, index, candidates, POLICY_DEVICES_MAX);
    bool found = false;

    for (size_t i = 0; i < count; i++) {
        if (candidates[i].verdict != verdict ||
            (found && candidates[i].memory_free <= largest->memory_free))
            continue;
        *largest = candidates[i];
        found = true;
    }
    return found;
}

static void explain_impossible(const struct policy_snapshot *snapshot,
                               const struct policy_decision *decision, size_t index, char *text,
                               size_t size)
{
    const struct policy_device *device;
    struct policy_candidate largest;
    char need[32], limit[32];

    if (!find_largest(snapshot, decision, index, POLICY_CANDIDATE_TOO_LARGE, &largest)) {
        snprintf(text, size,
                 snapshot->jobs[index].devices > 1
                     ? "this machine has not as many devices of one kind as it needs"
                     : "no device of this machine can run it and is allowed (device.allow, deny, "
                       "force); `trainctl devices` lists them");
        return;
    }
    device = &snapshot->devices[largest.device];
    snprintf(text, size, "needs %s, and %s may hold %s in all",
             text_format_bytes(largest.memory, need, sizeof need), device->name,
             text_format_bytes(
                 (uint64_t)(device->high_watermark_ratio * (double)device->memory_capacity), limit,
                 sizeof limit));
}

static void explain_memory(const struct policy_snapshot *snapshot,
                           const struct policy_decision *decision, size_t index, char *text,
                           size_t size)
{
    struct policy_candidate largest;
    const char *device;
    char need[32], left[32];

    if (!find_largest(snapshot, decision, index, POLICY_CANDIDATE_MEMORY, &largest)) {
        snprintf(text, size, "waits for memory: others hold too much");
        return;
    }
    device = snapshot->devices[largest.device].name;
    if (largest.memory <= largest.memory_free)
        snprintf(text, size,
                 "waits for memory: %s is filled beyond its low watermark, above which no further "
                 "job joins",
                 device);
    else
        snprintf(text, size, "waits for memory: needs %s, and %s has %s free below its watermark",
                 text_format_bytes(largest.memory, need, sizeof need), device,
                 text_format_bytes(largest.memory_free, left, sizeof left));
}

/* Writes, for example, "waits for cuda:0 or cuda:1: all of them are in use", of the devices that
 * could take the job. If all of them lack only memory, says how much. */
static void explain_busy(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision, size_t index, char *text,
                         size_t size)
{
    const struct policy_job *job = &snapshot->jobs[index];
    struct policy_candidate candidates[POLICY_DEVICES_MAX];
    size_t count = policy_candidates(snapshot, decision, index, candidates, POLICY_DEVICES_MAX);
    size_t used, busy = 0, full = 0;
    int64_t other = 0;

    used = (size_t)snprintf(text, size, "waits for ");
    for (size_t i = 0; i < count && used < size; i++) {
        if (candidates[i].verdict == POLICY_CANDIDATE_MEMORY)
            full++;
        else if (candidates[i].verdict != POLICY_CANDIDATE_BUSY)
            continue;
        other = candidates[i].other;
        if (++busy <= 4)
            used += (size_t)snprintf(text + used, size - used, "%s%s", busy > 1 ? " or " : "",
                                     snapshot->devices[candidates[i].device].name);
    }
    if (busy && busy == full)
        explain_memory(snapshot, decision, index, text, size);
    else if (busy == 1 && other && used < size)
        snprintf(text + used, size - used, ": job %lld has it", (long long)other);
    else if (busy && used < size)
        snprintf(text + used, size - used, ": %s",
                 busy == 1 ? "it is in use" : "all of them are in use");
    else
        snprintf(text, size, "waits for %s: others gain more from them now",
                 job->devices == 1 ? "a device" : "devices");
}

/* Lists the draining devices of the types that have as many devices as the job needs. Writes at
 * most four names and returns the number of all. */
static int list_draining(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision, size_t index,
                         const char *separator, char *names, size_t size)
{
    struct policy_candidate candidates[POLICY_DEVICES_MAX];
    size_t count = policy_candidates(snapshot, decision, index, candidates, POLICY_DEVICES_MAX);
    size_t used = 0;
    int of_type[POLICY_TYPES_MAX] = {0}, draining = 0;

    names[0] = '\0';
    for (size_t i = 0; i < count; i++)
        of_type[snapshot->devices[candidates[i].device].type] +=
            might_take(&candidates[i]) && candidates[i].verdict != POLICY_CANDIDATE_LOST;
    for (size_t i = 0; i < count; i++) {
        const struct policy_device *device = &snapshot->devices[candidates[i].device];

        if (candidates[i].verdict != POLICY_CANDIDATE_DRAINING ||
            of_type[device->type] < snapshot->jobs[index].devices)
            continue;
        if (draining++ < 4 && used < size)
            used += (size_t)snprintf(names + used, size - used, "%s%s",
                                     draining > 1 ? separator : "", device->name);
    }
    return draining;
}

static void explain_draining(const struct policy_snapshot *snapshot,
                             const struct policy_decision *decision, size_t index, char *text,
                             size_t size)
{
    int devices = snapshot->jobs[index].devices;
    char names[128];
    int draining =
        list_draining(snapshot, decision, index, devices == 1 ? " or " : ", ", names, sizeof names);
    const char *are = draining == 1 ? "is" : "are";

    if (devices == 1)
        snprintf(text, size, "waits for %s, which %s drained or quarantined", names, are);
    else
        snprintf(text, size,
                 "waits for %d devices of one kind: too few take jobs while %s %s drained or "
                 "quarantined",
                 devices, names, are);
}

char *policy_explain(const struct policy_snapshot *snapshot, const struct policy_decision *decision,
                     size_t index, char *text, size_t size)
{
    const struct policy_job *job = &snapshot->jobs[index];
    const struct policy_placement *placement = &decision->placements[index];
    char candidates[128], waited[32];

    describe_candidates(snapshot, job, candidates, sizeof candidates);
    text_format_duration(job->waited, waited, sizeof waited);
    switch (placement->verdict) {
    case POLICY_STAY:
    case POLICY_START:
    case POLICY_MOVE:
        explain_place(snapshot, decision, index, text, size);
        break;
    case POLICY_PREEMPT:
        explain_leaving(snapshot, decision, index, text, size);
        break;
    case POLICY_WAIT_DEVICES:
        explain_busy(snapshot, decision, index, text, size);
        break;
    case POLICY_WAIT_MEMORY:
        explain_memory(snapshot, decision, index, text, size);
        break;
    case POLICY_WAIT_DRAINING:
        explain_draining(snapshot, decision, index, text, size);
        break;
    case POLICY_WAIT_RESERVED:
        snprintf(text, size, "waits: devices are reserved for job %lld, which waited too long",
                 (long long)placement->blocked_by);
        break;
    case POLICY_WAIT_USER_LIMIT:
        snprintf(text, size, "waits: its user has %d device%s, as many as allowed (DevicesPerUser)",
                 snapshot->users[job->user].device_max,
                 snapshot->users[job->user].device_max == 1 ? "" : "s");
        break;
    case POLICY_WAIT_RESERVATION:
        snprintf(text, size, "has waited %s: the next devices that suit it are reserved (%s)",
                 waited, candidates);
        break;
    case POLICY_IMPOSSIBLE:
        explain_impossible(snapshot, decision, index, text, size);
        break;
    }
    return text;
}
