/* planning_turns.c: see planning_turns.h.
 *
 * Users take turns, and at most half of the planning runs belong to one user. So a user whose plans
 * hang, for example on a file system that does not answer, leaves room for others. There are two
 * more places, so that two such users together cannot stop the others either: one only for a user
 * without a planning run, and one only for root and the daemon's user. Of one user's jobs, the one
 * with the highest priority is planned first. */
#include "daemon/jobs/planning_turns.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/host_probe.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>
#include <unistd.h>

/* Planning runs spend more time on reading files than on computing: some wait for a disk while
 * others work. */
enum { PLANS_AT_ONCE_MIN = 4, PLANS_AT_ONCE_MAX = 64 };
enum { KEPT_FOR_ROOT = 1, KEPT_FOR_NEW_USERS = 1, KEPT = KEPT_FOR_ROOT + KEPT_FOR_NEW_USERS };

/* A user and their jobs that need a plan. */
struct planning_user {
    struct planning_user *next;
    uid_t uid;
    struct job_queue queue;
};

struct planning_turns {
    struct planning *runs; /* all places, free ones included */
    size_t run_count;
    struct planning_user *users;
    struct planning_user *next; /* whose turn is next; NULL: the first of `users` */
};

void planning_turns_start(struct jobs *jobs)
{
    size_t cores = (size_t)jobs->daemon->host->threads;
    struct planning_turns *turns = jobs->planning_turns = memory_zero(sizeof *turns);

    turns->run_count = cores < PLANS_AT_ONCE_MIN   ? PLANS_AT_ONCE_MIN
                       : cores > PLANS_AT_ONCE_MAX ? PLANS_AT_ONCE_MAX
                                                   : cores;
    turns->run_count += KEPT;
    turns->runs = memory_zero(turns->run_count * sizeof *turns->runs);
}

void planning_turns_free(struct jobs *jobs)
{
    struct planning_turns *turns = jobs->planning_turns;

    if (!turns)
        return;
    for (struct planning_user *user = turns->users, *next; user; user = next) {
        next = user->next;
        job_queue_release(&user->queue);
        free(user);
    }
    for (size_t i = 0; turns->runs && i < turns->run_count; i++)
        free(turns->runs[i].waiting);
    free(turns->runs);
    free(turns);
}

static struct planning_user *find_user(const struct jobs *jobs, uid_t uid)
{
    struct planning_user *user = jobs->planning_turns->users;

    while (user && user->uid != uid)
        user = user->next;
    return user;
}

struct job *planning_turns_first(const struct jobs *jobs, uid_t uid)
{
    struct planning_user *user = find_user(jobs, uid);

    return user ? job_queue_first(&user->queue) : NULL;
}

int planning_turns_queue(struct jobs *jobs, struct job *job)
{
    struct planning_user *user = find_user(jobs, job->uid);

    if (!user) {
        user = memory_zero(sizeof *user);
        user->uid = job->uid;
        user->next = jobs->planning_turns->users;
        jobs->planning_turns->users = user;
    }
    return job_queue_push(&user->queue, job);
}

static bool may_plan(const struct jobs *jobs, const struct planning_user *user)
{
    bool is_root = user->uid == 0 || user->uid == geteuid();
    size_t own = 0, running = 0, kept;

    for (size_t i = 0; i < jobs->planning_turns->run_count; i++) {
        running += jobs->planning_turns->runs[i].job != 0;
        own += jobs->planning_turns->runs[i].job != 0 &&
               jobs->planning_turns->runs[i].uid == user->uid;
    }
    kept = is_root ? 0 : own == 0 ? KEPT_FOR_ROOT : KEPT;
    return job_queue_first(&user->queue) && own < (jobs->planning_turns->run_count - KEPT) / 2 &&
           running + kept < jobs->planning_turns->run_count;
}

struct job *planning_turns_next(struct jobs *jobs)
{
    struct planning_user *begin =
        jobs->planning_turns->next ? jobs->planning_turns->next : jobs->planning_turns->users;
    struct planning_user *user = begin;

    while (user && !may_plan(jobs, user)) {
        user = user->next ? user->next : jobs->planning_turns->users;
        if (user == begin)
            return NULL;
    }
    if (!user)
        return NULL;
    jobs->planning_turns->next = user->next;
    return job_queue_first(&user->queue);
}

/* ---- the runs -------------------------------------------------------------------------------- */

struct planning *planning_turns_find(struct jobs *jobs, int64_t job)
{
    for (size_t i = 0; i < jobs->planning_turns->run_count; i++)
        if (jobs->planning_turns->runs[i].job == job)
            return &jobs->planning_turns->runs[i];
    return NULL;
}

void planning_turns_release(struct planning *planning)
{
    free(planning->waiting);
    *planning = (struct planning){0};
}

void planning_turns_wake(struct jobs *jobs, struct planning *planning)
{
    for (size_t i = 0; i < planning->waiting_count; i++) {
        struct job *job = job_table_find(jobs->table, planning->waiting[i]);

        if (job && !job->ended && !job->frozen && !job->queue && !job->attempt &&
            planning_turns_queue(jobs, job) < 0)
            log_error("not enough memory to queue job %lld", (long long)job->id);
    }
    planning_turns_release(planning);
}

void planning_turns_forget(struct jobs *jobs, int64_t job)
{
    struct planning *planning = planning_turns_find(jobs, job);

    /* a run that has begun ends by itself, see on_planned() */
    if (planning && !planning->running)
        planning_turns_wake(jobs, planning);
}

struct planning *planning_turns_runs(const struct jobs *jobs, size_t *count)
{
    *count = jobs->planning_turns->run_count;
    return jobs->planning_turns->runs;
}

bool planning_turns_are_under_way(const struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->planning_turns->run_count; i++)
        if (jobs->planning_turns->runs[i].job)
            return true;
    return false;
}
