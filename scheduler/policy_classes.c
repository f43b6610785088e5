/* policy_classes.c: places the jobs of one priority after the other, the highest first, on the
 * devices that are left. For each priority it selects candidates, lists their options, maximises
 * the sum of values, and enforces the users' limits. */
#include "scheduler/policy_internal.h"
#include "scheduler/rank.h"

#include <limits.h>
#include <string.h>

/* Of jobs with several devices, this many times as many are candidates as can run at once. */
enum { GANGS_KEPT = 2 };

/* The largest values so far: a heap with the smallest of them on top. */
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

/* Memory for finding the candidates: whether each job is one, and the best jobs of a pool. */
struct marking {
    bool *marked;
    struct best_values best;
};

static struct marking take_marking(struct workspace *workspace,
                                   const struct policy_snapshot *snapshot)
{
    struct marking marking = {0};
    size_t at_once = GANGS_KEPT * snapshot->device_count;

    marking.marked = workspace_take(workspace, snapshot->job_count, sizeof *marking.marked);
    marking.best.value = workspace_take(workspace, at_once, sizeof *marking.best.value);
    marking.best.job = workspace_take(workspace, at_once, sizeof *marking.best.job);
    return marking;
}

/* Marks the jobs of that size that may be part of the best solution. At most M of them run at once.
 * If a job outside the M best of a pool ran there, one of these M would be idle and would give a
 * larger value in its place. For gangs over several pools that is only a heuristic, so GANGS_KEPT
 * times as many are kept. */
static void mark_candidates(const struct policy_run *run, const size_t *jobs, size_t count,
                            int size, const struct marking *marking)
{
    struct best_values best = marking->best;

    best.limit = jobs_at_once(run, size) * (size > 1 ? GANGS_KEPT : 1);
    for (int p = 0; p < run->pool_count; p++) {
        const struct pool *pool = &run->pools[p];

        best.count = 0;
        for (size_t i = 0; i < count && pool->free > 0; i++) {
            const struct policy_job *job = &run->snapshot->jobs[jobs[i]];
            bool here = job->on &&
                        run->device_pool[job->on[0]] == (pool->base == POOL_NONE ? p : pool->base);
            double value;

            if (job->devices != size || job->estimates[pool->type].memory > pool->limit ||
                (pool->closed && !here) || !job_may_use(run, job, pool->device) ||
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
            marking->marked[best.job[i]] = true;
    }
}

/* The largest number of candidates. Of jobs with s devices, M / s run at once on M devices, and
 * GANGS_KEPT times as many are kept for each pool. The sum over s: 1 + 1/2 + ... + 1/256 < 7. */
static size_t candidates_max(const struct policy_snapshot *snapshot)
{
    size_t marked = 7 * GANGS_KEPT * snapshot->device_count * (size_t)pools_max(snapshot);

    _Static_assert(POLICY_DEVICES_MAX <= 256, "the sum above");
    return marked < snapshot->job_count ? marked : snapshot->job_count;
}

/* Reduces `jobs` to the candidates, in the same order. Returns their number. */
static size_t choose_candidates(const struct policy_run *run, size_t *jobs, size_t count)
{
    struct workspace workspace = run->workspace;
    struct marking marking = take_marking(&workspace, run->snapshot);
    bool sizes[POLICY_DEVICES_MAX + 1] = {false};
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        marking.marked[i] = false;
        if (run->snapshot->jobs[jobs[i]].devices <= POLICY_DEVICES_MAX)
            sizes[run->snapshot->jobs[jobs[i]].devices] = true;
    }
    for (int size = 1; size <= POLICY_DEVICES_MAX; size++)
        if (sizes[size])
            mark_candidates(run, jobs, count, size, &marking);
    for (size_t i = 0; i < count; i++)
        if (marking.marked[i])
            jobs[kept++] = jobs[i];
    return kept;
}

/* A user whose jobs, including those chosen now, hold more devices than allowed; POLICY_NONE: there
 * is none. */
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

/* Blocks the jobs of a user beyond the limit, except the most valuable chosen ones that fit within
 * it. */
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

/* Memory for the problem of one class; solve()'s own memory follows it. */
struct class_problem {
    int *capacity;     /* of each pool */
    int *user_devices; /* see user_beyond_limit() */
    struct solve_item *items;
    struct solve_option *options;
};

static struct class_problem take_problem(struct workspace *workspace,
                                         const struct policy_snapshot *snapshot)
{
    struct class_problem problem;
    size_t pools = (size_t)pools_max(snapshot), items = candidates_max(snapshot);

    problem.capacity = workspace_take(workspace, pools, sizeof *problem.capacity);
    problem.user_devices =
        workspace_take(workspace, snapshot->user_count, sizeof *problem.user_devices);
    problem.items = workspace_take(workspace, items, sizeof *problem.items);
    problem.options =
        workspace_take(workspace, items * job_options_max(snapshot), sizeof *problem.options);
    return problem;
}

static void make_items(const struct policy_run *run, const size_t *jobs, size_t count,
                       const struct class_problem *memory)
{
    struct solve_option *options = memory->options;

    for (size_t i = 0; i < count; i++) {
        memory->items[i] = (struct solve_item){.options = options,
                                               .option_count = job_options(run, jobs[i], options),
                                               .size = run->snapshot->jobs[jobs[i]].devices};
        options += memory->items[i].option_count;
    }
}

/* Solves the problem for these jobs and places them. If a user would exceed a limit, it blocks some
 * of that user's jobs, places no job and returns false. */
static bool solve_class(struct policy_run *run, const size_t *jobs, size_t count,
                        const struct ranked *class, size_t class_count)
{
    struct workspace workspace = run->workspace;
    struct class_problem memory = take_problem(&workspace, run->snapshot);
    struct solve_problem problem = {.items = memory.items,
                                    .item_count = count,
                                    .capacity = memory.capacity,
                                    .pool_count = run->pool_count};
    int user;
    bool exact;

    for (int p = 0; p < run->pool_count; p++)
        memory.capacity[p] = run->pools[p].free;
    make_items(run, jobs, count, &memory);
    solve(&problem, workspace, &exact);
    run->exact &= exact;
    user = user_beyond_limit(run, jobs, &problem, memory.user_devices);
    if (user != POLICY_NONE) {
        block_beyond_limit(run, jobs, &problem, user, class, class_count);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (problem.items[i].chosen >= 0)
            place_job(run, jobs[i], &problem.items[i].options[problem.items[i].chosen]);
    return true;
}

/* Sorts the undecided jobs by priority, the highest first; equal ones keep their order. */
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
static void place_class(struct policy_run *run, const struct ranked *class, size_t class_count,
                        size_t *jobs)
{
    bool placed = false;

    while (!placed) { /* until no user exceeds a limit */
        size_t count = 0;

        for (size_t i = 0; i < class_count; i++)
            if (run->choices[class[i].index].state == JOB_UNDECIDED)
                jobs[count++] = class[i].index;
        count = choose_candidates(run, jobs, count);
        placed = count == 0 || solve_class(run, jobs, count, class, class_count);
    }
}

/* Memory for the undecided jobs, and for the jobs of the present class. */
struct class_order {
    struct ranked *ranked;
    size_t *jobs;
};

static struct class_order take_order(struct workspace *workspace, size_t job_count)
{
    struct class_order order;

    order.ranked = workspace_take(workspace, job_count, sizeof *order.ranked);
    order.jobs = workspace_take(workspace, job_count, sizeof *order.jobs);
    return order;
}

/* After the order, three uses share memory one after the other: sorting, marking candidates, the
 * problem. */
size_t classes_workspace_size(const struct policy_snapshot *snapshot)
{
    struct workspace order = {0}, marking = {0}, problem = {0};
    size_t most = workspace_round(snapshot->job_count * sizeof(struct ranked));

    take_order(&order, snapshot->job_count);
    take_marking(&marking, snapshot);
    take_problem(&problem, snapshot);
    problem.taken += solve_workspace_size(candidates_max(snapshot), pools_max(snapshot),
                                          (int)snapshot->device_count);
    if (marking.taken > most)
        most = marking.taken;
    if (problem.taken > most)
        most = problem.taken;
    return order.taken + most;
}

void place_classes(struct policy_run *run)
{
    struct workspace before = run->workspace, workspace;
    size_t count = run->snapshot->job_count, next;
    struct class_order order = take_order(&run->workspace, count);

    workspace = run->workspace;
    count = rank_by_priority(run, order.ranked,
                             workspace_take(&workspace, count, sizeof *order.ranked));
    for (size_t first = 0; first < count && pools_have_free(run); first = next) {
        for (next = first + 1; next < count && order.ranked[next].key == order.ranked[first].key;)
            next++;
        place_class(run, order.ranked + first, next - first, order.jobs);
    }
    run->workspace = before;
}
