/* over_memory.c: see over_memory.h. An attempt that holds more than it has booked is booked with
 * what it holds, so a device is beyond its limit as soon as what others have booked there is in
 * danger. Until then nobody is disturbed. A command that broke its own word, by
 * resources.device_memory, is blamed before one whose need was only learnt or not known. */
#include "daemon/jobs/over_memory.h"

#include "base/log.h"
#include "base/text.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/job_warning.h"
#include "daemon/jobs/move.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/transition.h"
#include "daemon/work/job_table.h"

#include <stdio.h>

static bool is_leaving(const struct attempt *attempt)
{
    return attempt->intent != ENDING_NONE || attempt->suspension.state == SUSPENSION_BEGINS;
}

static bool has_declared(const struct attempt *attempt)
{
    return attempt->job->needs->device_memory > 0;
}

/* Bytes that the attempt holds beyond what it was given. */
static uint64_t excess_of(const struct attempt *attempt)
{
    const struct device_claim *claim = &attempt->claim;

    return claim->device_memory_held > claim->memory_granted
               ? claim->device_memory_held - claim->memory_granted
               : 0;
}

/* The command that takes too much; NULL: none does. */
static struct attempt *find_culprit(const struct device *device)
{
    struct attempt *culprit = NULL;

    for (size_t i = 0; i < device->claim_count; i++) {
        struct attempt *attempt = device->claims[i]->attempt;

        if (!attempt->job || attempt->job->ended || attempt->job->kind != JOB_COMMAND ||
            attempt->planning || attempt->job->state != JOB_RUNNING || excess_of(attempt) == 0)
            continue;
        if (!culprit || (has_declared(attempt) && !has_declared(culprit)) ||
            (has_declared(attempt) == has_declared(culprit) &&
             excess_of(attempt) > excess_of(culprit)))
            culprit = attempt;
    }
    return culprit;
}

static void explain(const struct attempt *attempt, const struct device *device, char *text,
                    size_t size)
{
    char held[32], granted[32];

    snprintf(text, size,
             "holds %s of %s, and had booked %s: what other jobs have booked there would "
             "run out",
             text_format_bytes(attempt->claim.device_memory_held, held, sizeof held), device->name,
             attempt->claim.memory_granted
                 ? text_format_bytes(attempt->claim.memory_granted, granted, sizeof granted)
                 : "nothing");
}

static void end(struct jobs *jobs, struct attempt *attempt, const char *reason)
{
    struct transition *transition = transition_new(jobs, attempt->job);

    snprintf(attempt->stop_reason, sizeof attempt->stop_reason, "%s", reason);
    transition_stop(transition, attempt->job, ENDING_OUT_OF_MEMORY);
    transition_store(transition);
}

static void tell(struct jobs *jobs, struct attempt *attempt, const char *reason)
{
    if (attempt->told_of_memory)
        return;
    attempt->told_of_memory = true;
    log_warning("job %lld %s", (long long)attempt->job_id, reason);
    job_warn(jobs->daemon, attempt->job_id, attempt->number, reason);
}

/* Whether several attempts have their memory with the device's. */
static bool device_is_shared(const struct device *device)
{
    const struct device *ledger = device_ledger(device);
    size_t count = ledger->claim_count;

    for (const struct device *sharer = ledger->sharers; sharer; sharer = sharer->next_sharer)
        count += sharer->claim_count;
    return count > 1;
}

bool over_memory_acts(struct jobs *jobs, struct device *device)
{
    enum over_memory rule = jobs->daemon->config.over_memory;
    struct job_change change = {.preemption = PREEMPTION_MEMORY};
    char reason[JOB_REASON_MAX];
    struct attempt *culprit;

    for (size_t i = 0; i < device->claim_count; i++)
        if (is_leaving(device->claims[i]->attempt))
            return true; /* what it holds comes free */
    culprit = device_is_shared(device) ? find_culprit(device) : NULL;
    if (!culprit)
        return false;
    explain(culprit, device, reason, sizeof reason);
    change.reason = reason;
    if (rule == OVER_MEMORY_TELL) {
        tell(jobs, culprit, reason);
        return false;
    }
    if (rule == OVER_MEMORY_SUSPEND && job_can_make_room(jobs, culprit->job)) {
        tell(jobs, culprit, reason);
        job_preempt(jobs, culprit->job, &change);
        return true;
    }
    tell(jobs, culprit, reason);
    if (rule == OVER_MEMORY_SUSPEND && !has_declared(culprit))
        return false; /* it gave no word, and would lose what it has done */
    end(jobs, culprit, reason);
    return true;
}
