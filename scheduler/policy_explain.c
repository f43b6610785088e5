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

static void explain_place(const struct policy_snapshot *snapshot, const struct policy_job *job,
                          const struct policy_placement *placement, char *text, size_t size)
{
    char devices[64], candidates[128], best[32];
    double fastest = INFINITY;
    const char *why;

    for (int type = 0; type < snapshot->type_count; type++)
        fastest = fmin(fastest, job->estimates[type].seconds);
    why = placement->starving                                  ? "it had waited too long"
          : job->estimates[placement->type].seconds <= fastest ? "the fastest for it"
                                                               : "others gain more elsewhere";
    describe_devices(snapshot, placement->devices, job->devices, devices, sizeof devices);
    describe_candidates(snapshot, job, candidates, sizeof candidates);
    text_format_duration(placement->seconds, best, sizeof best);
    snprintf(text, size, "%s%s: %s; predicted %s (%s)%s",
             placement->verdict == POLICY_MOVE ? "moves to " : "", devices, why, best, candidates,
             placement->shared ? "; shares it" : "");
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
        explain_place(snapshot, job, placement, text, size);
        break;
    case POLICY_PREEMPT:
        snprintf(text, size, "gives its %s up to jobs that gain more from %s",
                 job->devices == 1 ? "device" : "devices", job->devices == 1 ? "it" : "them");
        break;
    case POLICY_WAIT_DEVICES:
        snprintf(text, size, "waits for %s: others gain more from the devices now (%s)",
                 job->devices == 1 ? "a device" : "devices", candidates);
        break;
    case POLICY_WAIT_MEMORY:
        snprintf(text, size, "waits for memory: what others hold leaves too little (%s)",
                 candidates);
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
        snprintf(text, size, "no devices of this machine can take it%s%s%s",
                 candidates[0] ? " (" : "", candidates, candidates[0] ? ")" : "");
        break;
    }
    return text;
}
