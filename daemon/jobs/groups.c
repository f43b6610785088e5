/* groups.c: see groups.h. */
#include "daemon/jobs/groups.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/transition.h"
#include "daemon/work/job_table.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_UNLIMITED = -1 };

struct job_group {
    uid_t uid;
    int64_t limit; /* how many jobs at once, or GROUP_UNLIMITED */
    struct job **admitted;
    size_t admitted_count, admitted_capacity;
    struct job_queue waiting;
    struct job_group *next; /* all groups, in the order of their first use */
    bool pending;           /* a place may have become free */
    bool restored;          /* … for the first time since the daemon's start */
    char name[];
};
struct groups {
    struct job_group *first;
    void *by_name; /* tsearch(3) */
};

static int group_compare(const void *first, const void *second)
{
    const struct job_group *a = first, *b = second;

    return a->uid != b->uid ? (a->uid < b->uid ? -1 : 1) : strcmp(a->name, b->name);
}

struct job_group *group_find(struct jobs *jobs, uid_t uid, const char *name, bool make)
{
    struct job_group *group = memory_zero(sizeof *group + strlen(name) + 1);
    struct job_group **found;

    group->uid = uid;
    group->limit = GROUP_UNLIMITED;
    strcpy(group->name, name);
    found = tfind(group, &jobs->groups->by_name, group_compare);
    if (found || !make) {
        free(group);
        return found ? *found : NULL;
    }
    if (!tsearch(group, &jobs->groups->by_name, group_compare))
        memory_exhausted(0);
    group->next = jobs->groups->first;
    jobs->groups->first = group;
    return group;
}

static bool group_has_place(const struct job_group *group)
{
    return group->limit == GROUP_UNLIMITED || (int64_t)group->admitted_count < group->limit;
}

static void group_admit(struct job_group *group, struct job *job)
{
    if (group->admitted_count == group->admitted_capacity) {
        size_t capacity = group->admitted_capacity ? 2 * group->admitted_capacity : 8;

        group->admitted = memory_grow(group->admitted, capacity * sizeof(struct job *));
        group->admitted_capacity = capacity;
    }
    job->links->admitted = true;
    job->links->admitted_index = group->admitted_count;
    group->admitted[group->admitted_count++] = job;
}

/* Takes the job's place away; no other job gets it yet. */
static void group_dismiss(struct job_group *group, struct job *job)
{
    struct job *last = group->admitted[--group->admitted_count];

    group->admitted[job->links->admitted_index] = last;
    last->links->admitted_index = job->links->admitted_index;
    job->links->admitted = false;
}

static void group_describe(const struct job_group *group, char *text, size_t size)
{
    snprintf(text, size, "of its group %s %lld may run at once", group->name,
             (long long)group->limit);
}

bool job_group_explain(const struct job *job, char *text, size_t size)
{
    const struct job_group *group = job->links ? job->links->group : NULL;

    if (!group || job->queue != &group->waiting || group->limit == GROUP_UNLIMITED)
        return false;
    group_describe(group, text, size);
    return true;
}

static void group_wait(struct jobs *jobs, struct job_group *group, struct job *job)
{
    char sentence[JOB_REASON_MAX];

    if (job_queue_push(&group->waiting, job) < 0)
        memory_exhausted(0);
    if (!jobs->loaded)
        return; /* groups_settle() may give it a place at once */
    group_describe(group, sentence, sizeof sentence);
    job_set_waiting(jobs, job, WAIT_GROUP_LIMIT, sentence, NULL);
}

/* Of the admitted jobs that have not started, the one with the lowest priority, if that is lower
 * than the priority of `job`. */
static struct job *group_find_lower(const struct job_group *group, const struct job *job)
{
    struct job *lowest = NULL;

    for (size_t i = 0; i < group->admitted_count; i++) {
        struct job *other = group->admitted[i];

        if (other->queue && other->priority < job->priority &&
            (!lowest || other->priority < lowest->priority))
            lowest = other;
    }
    return lowest;
}

bool group_enter(struct jobs *jobs, struct job *job)
{
    struct job_group *group = job->links->group;
    struct job *lower;

    if (job->links->admitted)
        return true;
    if (!jobs->loaded) { /* not all running jobs are known yet */
        group_wait(jobs, group, job);
        return false;
    }
    if (!group_has_place(group)) {
        lower = group_find_lower(group, job);
        if (!lower) {
            group_wait(jobs, group, job);
            return false;
        }
        job_dequeue(jobs, lower);
        job_wait_end(jobs->table, lower, clock_now()); /* it waits for no device meanwhile */
        group_dismiss(group, lower);
        group_wait(jobs, group, lower);
    }
    group_admit(group, job);
    return true;
}

void group_leave(struct jobs *jobs, struct job *job)
{
    if (!job->links->admitted)
        return;
    group_dismiss(job->links->group, job);
    job->links->group->pending = true;
    graph_settle_soon(jobs);
}

void group_restore(struct job_group *group, struct job *runs)
{
    group->pending = group->restored = true;
    if (runs)
        group_admit(group, runs);
}

static void group_settle(struct jobs *jobs, struct job_group *group)
{
    struct job *job;

    group->pending = false;
    while (group_has_place(group) && (job = job_queue_first(&group->waiting))) {
        job_queue_remove(job);
        job_queue_after(jobs, job, 0);
        if (job->state == JOB_QUEUED && job->wait_reason == WAIT_GROUP_LIMIT)
            job_set_waiting(jobs, job, WAIT_DEVICE_BUSY, "waits for its turn", NULL);
    }
    for (size_t i = 0; group->restored && i < group->waiting.count; i++)
        job_wait_forget(jobs->table, group->waiting.jobs[i]); /* they wait for no device */
    group->restored = false;
}

void groups_settle(struct jobs *jobs)
{
    for (struct job_group *group = jobs->groups->first; group; group = group->next)
        if (group->pending)
            group_settle(jobs, group);
}

void groups_start(struct jobs *jobs)
{
    jobs->groups = memory_zero(sizeof *jobs->groups);
}

void groups_free(struct jobs *jobs)
{
    struct job_group *group;

    while (jobs->groups && (group = jobs->groups->first)) {
        jobs->groups->first = group->next;
        tdelete(group, &jobs->groups->by_name, group_compare);
        job_queue_release(&group->waiting);
        free(group->admitted);
        free(group);
    }
    free(jobs->groups);
}

/* ---- limits ---------------------------------------------------------------------------------- */

void jobs_group_set(struct daemon *daemon, uid_t uid, const char *name, int64_t limit)
{
    struct job_group *group = group_find(daemon->jobs, uid, name, true);

    group->limit = limit < 0 ? GROUP_UNLIMITED : limit;
    group->pending = true;
    graph_settle_soon(daemon->jobs);
}

void jobs_groups_each(struct daemon *daemon,
                      void (*each)(void *data, const struct job_group_view *view), void *data)
{
    for (struct job_group *group = daemon->jobs->groups->first; group; group = group->next) {
        struct job_group_view view = {.uid = group->uid,
                                      .name = group->name,
                                      .limit = group->limit,
                                      .waiting = group->waiting.count};

        for (size_t i = 0; i < group->admitted_count; i++)
            if (group->admitted[i]->state == JOB_QUEUED)
                view.next++;
            else
                view.running++;
        if (view.limit >= 0 || view.waiting || view.running || view.next)
            each(data, &view);
    }
}
