/* job_users.c: see job_users.h. */
#include "daemon/jobs/job_users.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/user_shares.h"
#include "scheduler/policy.h"

#include <math.h>
#include <stdlib.h>

/* What is known of a user. */
struct user_jobs {
    uid_t uid;
    size_t count;      /* jobs that have not ended */
    int64_t unmet;     /* open dependencies of these jobs */
    double usage;      /* device-seconds, halved every usage_half_life_seconds */
    double usage_time; /* the time of `usage`, seconds since the epoch */
};

struct job_users {
    struct user_jobs *list;
    size_t count;
    struct user_shares shares;
};

static struct user_jobs *user_find(struct jobs *jobs, uid_t uid)
{
    for (size_t i = 0; i < jobs->users->count; i++)
        if (jobs->users->list[i].uid == uid)
            return &jobs->users->list[i];
    return NULL;
}

void job_users_count(struct jobs *jobs, uid_t uid, int change)
{
    struct user_jobs *user = user_find(jobs, uid), *grown;

    if (!user) {
        grown = realloc(jobs->users->list, (jobs->users->count + 1) * sizeof *grown);
        if (!grown)
            return;
        jobs->users->list = grown;
        user = &grown[jobs->users->count++];
        *user = (struct user_jobs){.uid = uid};
    }
    user->count += (size_t)change;
}

void job_users_count_unmet(struct jobs *jobs, uid_t uid, int64_t change)
{
    struct user_jobs *user = user_find(jobs, uid);

    if (user)
        user->unmet += change;
}

int job_users_index(const struct jobs *jobs, uid_t uid)
{
    for (size_t i = 0; i < jobs->users->count; i++)
        if (jobs->users->list[i].uid == uid)
            return (int)i;
    return POLICY_NONE;
}

size_t job_users_number(const struct jobs *jobs)
{
    return jobs->users->count;
}

/* ---- fair share ------------------------------------------------------------------------------ */

/* Yesterday's usage counts half. */
static const double usage_half_life_seconds = 86400;

static double usage_at(const struct user_jobs *user, double now)
{
    return user->usage * exp2(-fmax(now - user->usage_time, 0) / usage_half_life_seconds);
}

struct policy_user job_users_policy(const struct jobs *jobs, size_t index)
{
    return (struct policy_user){
        .share = user_shares_weight(&jobs->users->shares, jobs->users->list[index].uid),
        .usage = usage_at(&jobs->users->list[index], clock_now()),
        .device_max = (int)jobs->daemon->config.devices_per_user};
}

void job_users_charge(struct jobs *jobs, const struct attempt *attempt)
{
    struct user_jobs *user = user_find(jobs, attempt->uid);
    double now = clock_now();

    /* uses the daemon's own times, because `started` comes from the job's user */
    if (!user || attempt->started <= 0)
        return;
    user->usage = usage_at(user, now) +
                  attempt->claim.device_count *
                      fmax(now - attempt->launched - attempt_suspended_seconds(attempt, now), 0);
    user->usage_time = now;
}

/* ---- questions ------------------------------------------------------------------------------- */

size_t jobs_count_of_user(const struct daemon *daemon, uid_t uid)
{
    struct user_jobs *user = user_find(daemon->jobs, uid);

    return user ? user->count : 0;
}

int64_t jobs_dependencies_of_user(const struct daemon *daemon, uid_t uid)
{
    struct user_jobs *user = user_find(daemon->jobs, uid);

    return user ? user->unmet : 0;
}

/* ---- start and end --------------------------------------------------------------------------- */

void job_users_start(struct jobs *jobs)
{
    jobs->users = memory_zero(sizeof *jobs->users);
}

int job_users_read_shares(struct jobs *jobs, struct error *error)
{
    return user_shares_read(jobs->daemon->config.shares, &jobs->users->shares, error);
}

void job_users_free(struct jobs *jobs)
{
    if (!jobs->users)
        return;
    user_shares_release(&jobs->users->shares);
    free(jobs->users->list);
    free(jobs->users);
}
