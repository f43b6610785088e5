/* early_changes.c: see early_changes.h. */
#include "daemon/jobs/early_changes.h"

#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>

/* A shim answers within milliseconds, unless somebody has stopped it. */
enum { PATIENCE_MILLISECONDS = 10000 };

struct waiting_change {
    struct waiting_change *next;
    int64_t job;
    early_change carry_out;
    struct job_change change; /* with texts of its own */
    uint64_t due;             /* uv_now() */
};

struct early_changes {
    uv_timer_t timer;
    struct waiting_change *first; /* in the order of the calls */
    bool carrying_out;
};

static void waiting_change_free(struct waiting_change *waiting)
{
    free((char *)waiting->change.reason);
    free((char *)waiting->change.decision);
    free((char *)waiting->change.device);
    free(waiting);
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct jobs *jobs)
{
    struct early_changes *changes = jobs->early_changes;
    uint64_t now = uv_now(jobs->daemon->loop), next = UINT64_MAX;

    for (const struct waiting_change *waiting = changes->first; waiting; waiting = waiting->next)
        next = waiting->due < next ? waiting->due : next;
    if (next == UINT64_MAX)
        uv_timer_stop(&changes->timer);
    else
        uv_timer_start(&changes->timer, on_timer, next > now ? next - now : 0, 0);
}

/* Not within the news that the attempt is found: the rest of the shim's answer comes first. */
static void on_timer(uv_timer_t *timer)
{
    struct jobs *jobs = timer->data;
    struct early_changes *changes = jobs->early_changes;
    struct waiting_change **link = &changes->first;

    changes->carrying_out = true;
    while (*link) {
        struct waiting_change *waiting = *link;

        if (waiting->due > uv_now(jobs->daemon->loop)) {
            link = &waiting->next;
            continue;
        }
        *link = waiting->next;
        waiting->carry_out(jobs->daemon, waiting->job, waiting->change);
        waiting_change_free(waiting);
    }
    changes->carrying_out = false;
    set_timer(jobs);
}

/* Whether it is about to be known what the job can do. */
static bool is_early(const struct attempt *attempt, const struct job_change *change)
{
    if (!attempt || attempt->claim.gone)
        return false;
    return (attempt->link.sought && !attempt->link.status_received) ||
           (attempt->suspension.state == SUSPENSION_ENDS &&
            change->preemption == PREEMPTION_DRAINED);
}

bool early_change_waits(struct jobs *jobs, const struct job *job, early_change carry_out,
                        const struct job_change *change)
{
    struct early_changes *changes = jobs->early_changes;
    struct waiting_change *waiting, **end = &changes->first;

    if (changes->carrying_out || jobs->stopping || !is_early(job->attempt, change))
        return false;
    waiting = memory_zero(sizeof *waiting);
    waiting->job = job->id;
    waiting->carry_out = carry_out;
    waiting->change = *change;
    waiting->change.reason = memory_copy_text(change->reason);
    waiting->change.decision = memory_copy_text(change->decision);
    waiting->change.device = memory_copy_text(change->device);
    waiting->due = uv_now(jobs->daemon->loop) + PATIENCE_MILLISECONDS;
    while (*end)
        end = &(*end)->next;
    *end = waiting;
    set_timer(jobs);
    return true;
}

void early_changes_found(struct jobs *jobs, int64_t job)
{
    struct early_changes *changes = jobs->early_changes;

    if (jobs->stopping || !changes->first)
        return;
    for (struct waiting_change *waiting = changes->first; waiting; waiting = waiting->next)
        if (waiting->job == job)
            waiting->due = 0;
    if (!changes->carrying_out)
        set_timer(jobs);
}

void early_changes_start(struct jobs *jobs)
{
    jobs->early_changes = memory_zero(sizeof *jobs->early_changes);
    uv_timer_init(jobs->daemon->loop, &jobs->early_changes->timer);
    jobs->early_changes->timer.data = jobs;
}

void early_changes_stop(struct jobs *jobs)
{
    struct early_changes *changes = jobs->early_changes;
    struct waiting_change *waiting;
    struct error error;

    if (!changes)
        return;
    while ((waiting = changes->first)) {
        changes->first = waiting->next;
        error_set(&error, -EAGAIN, "traind stops, and had not found job %lld again",
                  (long long)waiting->job);
        if (waiting->change.done)
            waiting->change.done(waiting->change.data, error.code, &error);
        waiting_change_free(waiting);
    }
    uv_close((uv_handle_t *)&changes->timer, NULL);
}

void early_changes_free(struct jobs *jobs)
{
    free(jobs->early_changes);
}
