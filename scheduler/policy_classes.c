/* policy_classes.c: the jobs of each priority in turn, the highest first, in what is left: the
 * candidates among them, their options, the best sum, and the limits of users. */
#include "scheduler/policy_internal.h"
#include "scheduler/rank.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* The largest values seen, smallest on top: a heap. */
struct best_values {
    double *value;
    size_t *job;
    int count, limit;
};

static void best_values_sift(struct best_values *best, int at)
{
    for (;;) {
        int least = at;

        for (int child = 2 * at + 1; child <= 2 * at + 2 && child < best->count; child++)
            if (best->value[child] < best->value[least] ||
                (best->value[child] == best->value[least] && best->job[child] > best->job[least]))
                least = child;
        if (least == at)
            return;
        double value = best->value[at];
        size_t job = best->job[at];

        best->value[at] = best->value[least];
        best->job[at] = best->job[least];
        best->value[least] = value;
        best->job[least] = job;
        at = least;
    }
}

static void best_values_add(struct best_values *best, double value, size_t job)
{
    if (best->count < best->limit) {
        best->value[best->count] = value;
        best->job[best->count++] = job;
        for (int at = best->count / 2 - 1; best->count == best->limit && at >= 0; at--)
            best_values_sift(best, at);
    } else if (best->limit > 0 && value > best->value[0]) {
        best->value[0] = value;
        best->job[0] = job;
        best_values_sift(best, 0);
    }
}

/* The most jobs of `size` devices that can run at once. */
static int jobs_at_once(const struct policy_run *run, int size)
{
    int count = 0;

    for (int type = 0; type < run->snapshot->type_count; type++) {
        int devices = 0;

        for (int p = 0; p < run->pool_count; p++)
            devices += run->pools[p].type == type ? run->pools[p].free : 0;
        count += devices / size;
    }
    return count;
}

/* Marks the jobs of that size that may be part of the best solution. When at most M of them run at
 * once, one that is not among the M best of a pool need not run there: of those M one is idle, and
 * would do better. Gangs over several pools make that a rule of thumb, so twice as many are kept.
 */
static int mark_candidates(struct policy_run *run, const size_t *jobs, size_t count, int size,
                           bool *marked)
{
    struct workspace workspace = run->workspace;
    int at_once = jobs_at_once(run, size) * (size > 1 ? 2 : 1);
    struct best_values best = {.limit = at_once};

    best.value = workspace_take(&workspace, (size_t)at_once, sizeof *best.value);
    best.job = workspace_take(&workspace, (size_t)at_once, sizeof *best.job);
    if (!best.value || !best.job)
        return -ENOBUFS;
    for (int p = 0; p < run->pool_count; p++) {
        const struct pool *pool = &run->pools[p];

        best.count = 0;
        for (size_t i = 0; i < count && pool->free > 0; i++) {
            const struct policy_job *job = &run->snapshot->jobs[jobs[i]];
            bool here = job->on &&
                        run->device_pool[job->on[0]] == (pool->base == POOL_NONE ? p : pool->base);
            double value;

            if (job->devices != size || job->estimates[pool->type].memory > pool->limit ||
                (pool->closed && !here) || !job_allows(job, pool->device) ||
                (pool->base != POOL_NONE &&
                 job->estimates[pool->type].seconds +
                         (here || !job->resumes ? 0 : job->restart_seconds) >
                     pool->until))
                continue;
            value = value_on_type(run->snapshot, job, &run->values[jobs[i]], pool->type,
                                  job_prefers(job, pool->device), here);
            if (value > 0)
                best_values_add(&best, value, i);
        }
        for (int i = 0; i < best.count; i++)
            marked[best.job[i]] = true;
    }
    return 0;
}

/* Reduces `jobs` to candidates, in the same order. */
static int choose_candidates(struct policy_run *run, size_t *jobs, size_t *count)
{
    struct workspace before = run->workspace;
    bool *marked = workspace_take(&run->workspace, *count, sizeof *marked);
    bool sizes[POLICY_DEVICES_MAX + 1] = {false};
    size_t kept = 0;
    int result = marked ? 0 : -ENOBUFS;

    for (size_t i = 0; i < *count && result == 0; i++) {
        marked[i] = false;
        if (run->snapshot->jobs[jobs[i]].devices <= POLICY_DEVICES_MAX)
            sizes[run->snapshot->jobs[jobs[i]].devices] = true;
    }
    for (int size = 1; size <= POLICY_DEVICES_MAX && result == 0; size++)
        if (sizes[size])
            result = mark_candidates(run, jobs, *count, size, marked);
    for (size_t i = 0; i < *count && result == 0; i++)
        if (marked[i])
            jobs[kept++] = jobs[i];
    *count = kept;
    run->workspace = before;
    return result;
}

/* The user whose jobs, with those chosen now, hold more devices than allowed; POLICY_NONE: nobody.
 */
static int user_beyond_limit(const struct policy_run *run, const size_t *jobs,
                             const struct solve_problem *problem, int *devices)
{
    const struct policy_snapshot *snapshot = run->snapshot;

    memcpy(devices, run->user_devices, snapshot->user_count * sizeof *devices);
    for (size_t i = 0; i < problem->item_count; i++) {
        const struct policy_job *job = &snapshot->jobs[jobs[i]];

        if (problem->items[i].chosen < 0 || job->user == POLICY_NONE)
            continue;
        devices[job->user] += job->devices;
        if (snapshot->users[job->user].device_max > 0 &&
            devices[job->user] > snapshot->users[job->user].device_max)
            return job->user;
    }
    return POLICY_NONE;
}

static double item_density(const struct solve_item *item)
{
    return item->chosen < 0 ? -1 : item->options[item->chosen].value / item->size;
}

/* Of the jobs of a user beyond its limit the most valuable that fit in it remain candidates. */
static void block_beyond_limit(struct policy_run *run, const size_t *jobs,
                               const struct solve_problem *problem, int user,
                               const struct ranked *class, size_t class_count)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    int left = snapshot->users[user].device_max - run->user_devices[user];

    for (size_t i = 0; i < class_count; i++) {
        size_t job = class[i].index;

        if (snapshot->jobs[job].user != user || run->choices[job].state != JOB_UNDECIDED)
            continue;
        run->choices[job].state = JOB_BLOCKED;
        run->placements[job].verdict = POLICY_WAIT_USER_LIMIT;
    }
    for (;;) {
        size_t best = SIZE_MAX;

        for (size_t i = 0; i < problem->item_count; i++)
            if (snapshot->jobs[jobs[i]].user == user && problem->items[i].size <= left &&
                run->choices[jobs[i]].state == JOB_BLOCKED && problem->items[i].chosen >= 0 &&
                (best == SIZE_MAX ||
                 item_density(&problem->items[i]) > item_density(&problem->items[best])))
                best = i;
        if (best == SIZE_MAX)
            return;
        left -= problem->items[best].size;
        run->choices[jobs[best]].state = JOB_UNDECIDED;
        run->placements[jobs[best]].verdict = POLICY_WAIT_DEVICES;
    }
}

static int make_items(const struct policy_run *run, const size_t *jobs, size_t count,
                      struct workspace *workspace, struct solve_item *items)
{
    for (size_t i = 0; i < count; i++) {
        int size = run->snapshot->jobs[jobs[i]].devices, limit = OPTIONS_OF_A_JOB(run->snapshot);
        struct solve_option *options = (struct solve_option *)workspace->at;

        if ((size_t)(workspace->end - workspace->at) < (size_t)limit * sizeof *options)
            return -ENOBUFS;
        items[i] = (struct solve_item){.options = options,
                                       .option_count = job_options(run, jobs[i], options, limit),
                                       .size = size};
        workspace_take(workspace, (size_t)items[i].option_count, sizeof *options);
    }
    return 0;
}

/* Solves for these jobs and places them; or places nobody, when a user would be beyond its limit:
 * then some of its jobs are blocked, and the return value is 1. */
static int solve_class(struct policy_run *run, const size_t *jobs, size_t count,
                       const struct ranked *class, size_t class_count)
{
    struct workspace workspace = run->workspace;
    struct solve_problem problem = {.item_count = count, .pool_count = run->pool_count};
    int *capacity = workspace_take(&workspace, (size_t)run->pool_count, sizeof *capacity);
    int *devices = workspace_take(&workspace, run->snapshot->user_count, sizeof *devices);
    int result, user;
    bool exact;

    problem.items = workspace_take(&workspace, count, sizeof *problem.items);
    if (!capacity || !devices || !problem.items)
        return -ENOBUFS;
    for (int p = 0; p < run->pool_count; p++)
        capacity[p] = run->pools[p].free;
    problem.capacity = capacity;
    result = make_items(run, jobs, count, &workspace, problem.items);
    if (result == 0)
        result = solve(&problem, workspace, &exact);
    if (result < 0)
        return result;
    run->exact &= exact;
    user = user_beyond_limit(run, jobs, &problem, devices);
    if (user != POLICY_NONE) {
        block_beyond_limit(run, jobs, &problem, user, class, class_count);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        if (problem.items[i].chosen >= 0)
            place_job(run, jobs[i], &problem.items[i].options[problem.items[i].chosen]);
    return 0;
}

/* The undecided jobs, the highest priority first, else in order. */
static size_t rank_by_priority(const struct policy_run *run, struct ranked *ranked,
                               struct ranked *other)
{
    size_t count = 0;

    for (size_t i = 0; i < run->snapshot->job_count; i++)
        if (run->choices[i].state == JOB_UNDECIDED)
            ranked[count++] =
                (struct ranked){(uint64_t)((int64_t)INT_MAX - run->snapshot->jobs[i].priority), i};
    rank_sort(ranked, other, count);
    return count;
}

/* Places jobs of one priority. */
static int place_class(struct policy_run *run, const struct ranked *class, size_t class_count,
                       size_t *jobs)
{
    int result = 1;

    while (result > 0) { /* until no user is beyond its limit */
        size_t count = 0;

        for (size_t i = 0; i < class_count; i++)
            if (run->choices[class[i].index].state == JOB_UNDECIDED)
                jobs[count++] = class[i].index;
        result = choose_candidates(run, jobs, &count);
        if (result == 0 && count > 0)
            result = solve_class(run, jobs, count, class, class_count);
    }
    return result;
}

int place_classes(struct policy_run *run)
{
    struct workspace before = run->workspace;
    size_t count = run->snapshot->job_count, next;
    struct ranked *ranked = workspace_take(&run->workspace, count, sizeof *ranked);
    size_t *jobs = workspace_take(&run->workspace, count, sizeof *jobs);
    int result = ranked && jobs ? 0 : -ENOBUFS;

    if (result == 0) {
        struct workspace workspace = run->workspace;
        struct ranked *other = workspace_take(&workspace, count, sizeof *other);

        result = other ? 0 : -ENOBUFS;
        count = other ? rank_by_priority(run, ranked, other) : 0;
    }
    for (size_t first = 0; first < count && result == 0 && pools_have_free(run); first = next) {
        for (next = first + 1; next < count && ranked[next].key == ranked[first].key;)
            next++;
        result = place_class(run, ranked + first, next - first, jobs);
    }
    run->workspace = before;
    return result;
}
