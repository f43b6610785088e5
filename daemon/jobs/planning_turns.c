/* planning_turns.c: which jobs are being planned, and whose is next.
 *
 * Users take turns, and half of the planning runs at most are of one user: whoever's plans hang, on
 * a file system that does not answer say, leaves room for others. Beside these are a place that
 * only a user who has no planning run may take, and one for root and the daemon's user alone: two
 * users together do not stop the others either. Of one user's jobs the first is that of the highest
 * priority. */
#include "base/log.h"
#include "daemon/jobs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Planning runs read files more than they calculate: some may wait for a disk while others work. */
enum { PLANS_AT_ONCE_MIN = 4, PLANS_AT_ONCE_MAX = 64 };
enum { KEPT_FOR_ROOT = 1, KEPT_FOR_NEW_USERS = 1, KEPT = KEPT_FOR_ROOT + KEPT_FOR_NEW_USERS };

/* A user's jobs that need a plan first. */
struct planning_user {
    struct planning_user *next;
    uid_t uid;
    struct job_queue queue;
};

int planning_turns_start(struct jobs *jobs)
{
    size_t cores = (size_t)jobs->daemon->cpu->threads;

    jobs->planning_count = cores < PLANS_AT_ONCE_MIN   ? PLANS_AT_ONCE_MIN
                           : cores > PLANS_AT_ONCE_MAX ? PLANS_AT_ONCE_MAX
                                                       : cores;
    jobs->planning_count += KEPT;
    jobs->planning = calloc(jobs->planning_count, sizeof *jobs->planning);
    return jobs->planning ? 0 : -ENOMEM;
}

void planning_turns_free(struct jobs *jobs)
{
    for (struct planning_user *user = jobs->planning_users, *next; user; user = next) {
        next = user->next;
        job_queue_release(&user->queue);
        free(user);
    }
    for (size_t i = 0; jobs->planning && i < jobs->planning_count; i++)
        free(jobs->planning[i].waiting);
    free(jobs->planning);
}

int planning_queue(struct jobs *jobs, struct job *job)
{
    struct planning_user *user = jobs->planning_users;

    while (user && user->uid != job->uid)
        user = user->next;
    if (!user) {
        user = calloc(1, sizeof *user);
        if (!user)
            return -ENOMEM;
        user->uid = job->uid;
        user->next = jobs->planning_users;
        jobs->planning_users = user;
    }
    return job_queue_push(&user->queue, job);
}

static bool may_plan(const struct jobs *jobs, const struct planning_user *user)
{
    bool is_root = user->uid == 0 || user->uid == geteuid();
    size_t own = 0, running = 0, kept;

    for (size_t i = 0; i < jobs->planning_count; i++) {
        running += jobs->planning[i].job != 0;
        own += jobs->planning[i].job != 0 && jobs->planning[i].uid == user->uid;
    }
    kept = is_root ? 0 : own == 0 ? KEPT_FOR_ROOT : KEPT;
    return job_queue_first(&user->queue) && own < (jobs->planning_count - KEPT) / 2 &&
           running + kept < jobs->planning_count;
}

struct job *planning_next(struct jobs *jobs)
{
    struct planning_user *begin = jobs->next_to_plan ? jobs->next_to_plan : jobs->planning_users;
    struct planning_user *user = begin;

    while (user && !may_plan(jobs, user)) {
        user = user->next ? user->next : jobs->planning_users;
        if (user == begin)
            return NULL;
    }
    if (!user)
        return NULL;
    jobs->next_to_plan = user->next;
    return job_queue_first(&user->queue);
}

/* ---- the runs -------------------------------------------------------------------------------- */

struct planning *planning_find(struct jobs *jobs, int64_t job)
{
    for (size_t i = 0; i < jobs->planning_count; i++)
        if (jobs->planning[i].job == job)
            return &jobs->planning[i];
    return NULL;
}

void planning_release(struct planning *planning)
{
    free(planning->waiting);
    *planning = (struct planning){0};
}

void planning_wake(struct jobs *jobs, struct planning *planning)
{
    for (size_t i = 0; i < planning->waiting_count; i++) {
        struct job *job = job_table_find(&jobs->table, planning->waiting[i]);

        if (job && !job->ended && !job->queue && !job->attempt && planning_queue(jobs, job) < 0)
            log_error("not enough memory to queue job %lld", (long long)job->id);
    }
    planning_release(planning);
}

void planning_forget(struct jobs *jobs, int64_t job)
{
    struct planning *planning = planning_find(jobs, job);

    /* a running one ends by itself: see on_planned() */
    if (planning && !planning->running)
        planning_wake(jobs, planning);
}
