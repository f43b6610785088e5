/* policy_explain.c: the sentences of policy_explain(). */
#include "base/text.h"
#include "scheduler/policy_internal.h"

#include <math.h>
#include <stdio.h>

/* "V100 2 h 5 min, cpu 3 d" of all types that could take the job. */
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

/* The device that a running job must leave because its memory is no longer enough for it beside
 * those that stay; NULL: there is none. */
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

static void explain_place(const struct policy_snapshot *snapshot,
                          const struct policy_decision *decision, const struct policy_job *job,
                          const struct policy_placement *placement, char *text, size_t size)
{
    const struct policy_device *full = NULL;
    char devices[64], candidates[128], best[32], left[96];
    double fastest = INFINITY;
    const char *why;

    for (int type = 0; type < snapshot->type_count; type++)
        fastest = fmin(fastest, job->estimates[type].seconds);
    if (!job->length_known) {
        describe_devices(snapshot, placement->devices, job->devices, devices, sizeof devices);
        snprintf(text, size, "%s%s: %s; how long it takes is not known",
                 placement->verdict == POLICY_MOVE ? "moves to " : "", devices,
                 placement->starving ? "it had waited too long"
                 : placement->shared ? "it has room for it"
                                     : "free for it");
        return;
    }
    why = placement->starving                                  ? "it had waited too long"
          : job->estimates[placement->type].seconds <= fastest ? "the fastest for it"
                                                               : "others gain more elsewhere";
    if (placement->verdict == POLICY_MOVE)
        full = device_too_full(snapshot, decision, job);
    if (full) {
        snprintf(left, sizeof left, "others hold too much memory of %s", full->name);
        why = left;
    }
    describe_devices(snapshot, placement->devices, job->devices, devices, sizeof devices);
    describe_candidates(snapshot, job, candidates, sizeof candidates);
    text_format_duration(placement->seconds, best, sizeof best);
    snprintf(text, size, "%s%s: %s; predicted %s (%s)%s",
             placement->verdict == POLICY_MOVE ? "moves to " : "", devices, why, best, candidates,
             placement->shared ? "; shares it" : "");
}

/* The device that comes nearest to having the memory; false: memory is not what is missing. */
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
                     : "no device of this machine can, or may, run it");
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

/* "waits for cuda:0 or cuda:1: all of them are in use": of the devices that could take it at all;
 * where only memory is missing, what of it. */
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

char *policy_explain(const struct policy_snapshot *snapshot, const struct policy_decision *decision,
                     size_t index, char *text, size_t size)
{
    const struct policy_job *job = &snapshot->jobs[index];
    const struct policy_placement *placement = &decision->placements[index];
    const struct policy_device *full;
    char candidates[128], waited[32];

    describe_candidates(snapshot, job, candidates, sizeof candidates);
    text_format_duration(job->waited, waited, sizeof waited);
    switch (placement->verdict) {
    case POLICY_STAY:
    case POLICY_START:
    case POLICY_MOVE:
        explain_place(snapshot, decision, job, placement, text, size);
        break;
    case POLICY_PREEMPT:
        full = device_too_full(snapshot, decision, job);
        if (full)
            snprintf(text, size, "leaves %s: others hold too much of its memory", full->name);
        else
            snprintf(text, size, "gives its %s up to jobs that gain more from %s",
                     job->devices == 1 ? "device" : "devices", job->devices == 1 ? "it" : "them");
        break;
    case POLICY_WAIT_DEVICES:
        explain_busy(snapshot, decision, index, text, size);
        break;
    case POLICY_WAIT_MEMORY:
        explain_memory(snapshot, decision, index, text, size);
        break;
    case POLICY_WAIT_DRAINING:
        snprintf(text, size, "waits: the devices that could take it are draining (%s)", candidates);
        break;
    case POLICY_WAIT_RESERVED:
        snprintf(text, size, "waits: devices are reserved for job %lld, which waited too long",
                 (long long)placement->blocked_by);
        break;
    case POLICY_WAIT_USER_LIMIT:
        snprintf(text, size, "waits: its user has %d devices, as many as allowed",
                 snapshot->users[job->user].device_max);
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
