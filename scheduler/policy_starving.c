/* policy_starving.c: the starvation bound. Jobs that have waited too long go first, the shortest
 * before the others; a job that cannot start at once gets a reservation. A job served in this way
 * keeps its devices to its end. Other starving jobs do not take them, so all of them end.
 *
 * On an overloaded machine all jobs wait too long. If all starving jobs were served, long jobs
 * would run before short ones, and all would wait longer. So starving jobs together get a part of
 * the machine (POLICY_STARVING_PART). A job that does not fit in the part is served only if the
 * machine can catch up: the work of all others must take no more than POLICY_STARVING_ROOM of the
 * time that the job has waited. */
#include "scheduler/policy_internal.h"
#include "scheduler/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds of waiting after which the job starves; INFINITY: never. */
static double starvation_bound(const struct policy_run *run, size_t index)
{
    const struct policy_settings *settings = &run->snapshot->settings;
    double seconds = run->values[index].best_seconds;

    if (settings->starvation_factor <= 0 || !isfinite(seconds))
        return INFINITY;
    return fmax(settings->starvation_seconds, settings->starvation_factor * seconds);
}

/* Whether the job starves. If so, fills its rank among the starving jobs: the shortest first. */
static bool starves(const struct policy_run *run, size_t index, struct ranked *rank)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    double seconds = run->values[index].best_seconds;

    if (run->choices[index].state != JOB_UNDECIDED || (job->on && !job->starved) ||
        !(job->waited >= starvation_bound(run, index)))
        return false;
    /* the bits of positive doubles are ordered as the numbers */
    memcpy(&rank->key, &seconds, sizeof seconds);
    rank->index = index;
    return true;
}

/* Lists the starving jobs: first those that run because they starved, then the others. Returns
 * their number. */
static size_t find_starving(const struct policy_run *run, struct ranked *starving,
                            struct ranked *other)
{
    size_t running = 0, count;

    for (size_t i = 0; i < run->running_count; i++)
        running += starves(run, run->running[i], &starving[running]);
    rank_sort(starving, other, running);
    count = running;
    for (size_t i = 0; i < run->snapshot->job_count; i++)
        if (!run->snapshot->jobs[i].on)
            count += starves(run, i, &starving[count]);
    rank_sort(starving + running, other, count - running);
    return count;
}

/* Places the job by its best option on free devices. Returns whether there is one. */
static bool place_now(struct policy_run *run, size_t index, struct solve_option *options)
{
    int count = job_options(run, index, options), best = 0;

    for (int o = 1; o < count; o++)
        if (options[o].value > options[best].value)
            best = o;
    if (count > 0)
        place_job(run, index, &options[best]);
    return count > 0;
}

static int compare_seconds(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* The predicted seconds until the job can have its devices on `type`. Devices of unmovable and of
 * placed jobs become free when these jobs end. INFINITY: never, or not known. */
static double seconds_until(const struct policy_run *run, size_t index, int type)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    const struct policy_job *job = &snapshot->jobs[index];
    double seconds[2 * POLICY_DEVICES_MAX];
    int count = 0;

    for (size_t d = 0; d < snapshot->device_count; d++)
        if (snapshot->devices[d].type == type && run->device_pool[d] == POOL_NONE &&
            !snapshot->devices[d].draining && job_allows(job, (int)d) &&
            job->estimates[type].memory <= run->limit_now[d])
            seconds[count++] = run->device_until[d];
    for (int p = 0; p < run->pool_count; p++)
        for (int i = 0; run->pools[p].type == type && !run->pools[p].closed &&
                        job_allows(job, run->pools[p].device) &&
                        job->estimates[type].memory <= run->pools[p].limit &&
                        run->pools[p].base == POOL_NONE && i < run->pools[p].free;
             i++)
            seconds[count++] = 0;
    for (size_t i = 0; i < run->placed_count; i++) {
        const struct policy_job *placed = &snapshot->jobs[run->placed[i]];
        const struct solve_option *option = &run->choices[run->placed[i]].option;

        if (option->type != type)
            continue;
        for (int p = 0; p < option->part_count; p++)
            for (int d = 0; job_allows(job, run->pools[option->parts[p].pool].device) &&
                            d < option->parts[p].count && count < 2 * POLICY_DEVICES_MAX;
                 d++)
                seconds[count++] = placed->estimates[type].seconds;
    }
    if (count < job->devices)
        return INFINITY;
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    return seconds[job->devices - 1];
}

/* Reserves free devices of the type where the job would end first. Other jobs may use them until
 * the reservation begins. */
static void reserve(struct policy_run *run, size_t index)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    double best_end = INFINITY, until = 0;
    int best = POLICY_NONE, wanted = job->devices, pools = run->pool_count;

    for (int type = 0; type < run->snapshot->type_count; type++) {
        double begin = seconds_until(run, index, type);

        if (begin + job->estimates[type].seconds < best_end) {
            best_end = begin + job->estimates[type].seconds;
            until = begin;
            best = type;
        }
    }
    for (int p = 0; p < pools && wanted > 0 && best != POLICY_NONE; p++) {
        struct pool *pool = &run->pools[p], *held = &run->pools[run->pool_count];
        int count = pool->free < wanted ? pool->free : wanted;

        if (pool->type != best || pool->closed || pool->base != POOL_NONE || count == 0 ||
            !job_allows(job, pool->device) || job->estimates[best].memory > pool->limit ||
            run->pool_count == pools_max(run->snapshot))
            continue;
        *held = *pool;
        held->free = count;
        held->base = p;
        held->until = until;
        held->owner = job->id;
        pool->free -= count;
        wanted -= count;
        run->pool_count++;
    }
}

/* ---- the part of the machine for starving jobs ----------------------------------------------- */

static void part_begin(struct policy_run *run)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    struct starving_part *part = &run->part;

    part->most = POLICY_STARVING_PART * (double)snapshot->device_count;
    for (size_t d = 0; d < snapshot->device_count; d++)
        part->devices[snapshot->devices[d].type] += !snapshot->devices[d].lost;
    for (size_t i = 0; i < snapshot->job_count; i++)
        if (run->values[i].best_type != POLICY_NONE)
            part->work[run->values[i].best_type] +=
                run->values[i].work * (1 + (double)snapshot->jobs[i].alike);
}

/* Seconds of waiting after which the machine can catch up if the job is served beyond the part: the
 * other work of the types that suit it takes at most POLICY_STARVING_ROOM of these seconds. */
static double room_bound(const struct policy_run *run, size_t index)
{
    double work = -run->values[index].work, devices = 0;

    for (int type = 0; type < run->snapshot->type_count; type++) {
        if (!(run->choices[index].types >> type & 1))
            continue;
        work += run->part.work[type];
        devices += run->part.devices[type];
    }
    return work / (POLICY_STARVING_ROOM * fmax(devices, 1));
}

/* A job that was served already goes on. Otherwise only one job may go beyond the part, and another
 * one only if no type that suits it serves a starving job. So a job for the CPU does not wait for
 * jobs that starve for a GPU. */
static bool may_be_served(const struct policy_run *run, size_t index)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    const struct starving_part *part = &run->part;

    if (job->on || part->taken + job->devices <= part->most)
        return true;
    if (job->waited < room_bound(run, index))
        return false;
    if (part->taken <= part->most)
        return true;
    for (int type = 0; type < run->snapshot->type_count; type++)
        if (part->held[type] && (run->choices[index].types >> type & 1))
            return false;
    return true;
}

static void take_part(struct policy_run *run, size_t index, bool placed)
{
    run->part.taken += run->snapshot->jobs[index].devices;
    for (int type = 0; type < run->snapshot->type_count; type++)
        run->part.held[type] |= placed ? type == run->choices[index].option.type
                                       : run->choices[index].types >> type & 1;
}

double seconds_to_starving(const struct policy_run *run, size_t index)
{
    double waited = run->snapshot->jobs[index].waited, bound = starvation_bound(run, index);

    if (waited >= bound)
        bound = run->placements[index].starving ? 0 : room_bound(run, index);
    return bound > waited ? bound - waited : INFINITY;
}

/* Memory for the starving jobs, and for the options of one of them. */
struct starving_jobs {
    struct ranked *jobs, *other;
    struct solve_option *options;
};

static struct starving_jobs take_starving(struct workspace *workspace,
                                          const struct policy_snapshot *snapshot)
{
    struct starving_jobs starving;
    size_t count = snapshot->job_count;

    starving.jobs = workspace_take(workspace, count, sizeof *starving.jobs);
    starving.other = workspace_take(workspace, count, sizeof *starving.other);
    starving.options =
        workspace_take(workspace, job_options_max(snapshot), sizeof *starving.options);
    return starving;
}

size_t starving_workspace_size(const struct policy_snapshot *snapshot)
{
    struct workspace counted = {0};

    take_starving(&counted, snapshot);
    return counted.taken;
}

void place_starving(struct policy_run *run)
{
    struct workspace workspace = run->workspace;
    struct starving_jobs starving = take_starving(&workspace, run->snapshot);
    size_t count = find_starving(run, starving.jobs, starving.other);

    if (count > 0)
        part_begin(run);
    for (size_t i = 0; i < count; i++) {
        size_t job = starving.jobs[i].index;
        bool any = pools_have_free(run), placed;

        if (!may_be_served(run, job))
            continue;
        run->placements[job].starving = true;
        if (user_is_at_limit(run, &run->snapshot->jobs[job]))
            continue;
        placed = any && place_now(run, job, starving.options);
        take_part(run, job, placed);
        if (placed)
            continue;
        if (any)
            reserve(run, job);
        run->choices[job].state = JOB_BLOCKED;
        run->placements[job].verdict = POLICY_WAIT_RESERVATION;
    }
}
