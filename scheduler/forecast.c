/* forecast.c: see forecast.h. */
#include "scheduler/forecast.h"

#include "scheduler/policy_internal.h"
#include "scheduler/rank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A job that runs on devices in the simulation. */
struct task {
    const struct policy_job *job;
    double end; /* seconds from now; INFINITY: not known */
    int type;
    uint64_t devices[POLICY_MASK_WORDS];
};

struct load {
    int jobs;
    bool shared; /* all its jobs may share */
    uint64_t memory;
    double utilisation;
};

struct forecast {
    const struct policy_snapshot *snapshot;
    const struct policy_decision *decision;
    struct load loads[POLICY_DEVICES_MAX];
    uint64_t open[POLICY_MASK_WORDS]; /* devices that might take another job */
    int *user_devices;                /* owned, like the next two arrays */
    struct task *tasks;
    size_t task_count;
    size_t *waiting; /* indices of jobs, in the order in which they are tried; owned */
    size_t waiting_count;
    struct forecast_start *starts; /* borrowed */
    size_t start_count, limit;
};

/* ---- order of the waiting jobs --------------------------------------------------------------- */

static bool job_waits(const struct forecast *forecast, size_t index)
{
    enum policy_verdict verdict = forecast->decision->placements[index].verdict;

    return !forecast->snapshot->jobs[index].on && verdict != POLICY_START &&
           verdict != POLICY_IMPOSSIBLE;
}

/* A key that rises as the number falls. The number must not be negative. */
static uint64_t falling(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    return ~bits;
}

/* A starving job comes before all others of its priority. */
static double worth(const struct policy_placement *placement)
{
    if (placement->verdict == POLICY_WAIT_RESERVATION)
        return INFINITY;
    return placement->worth > 0 ? placement->worth : 0;
}

static void waiting_fill(struct forecast *forecast, struct ranked *order, struct ranked *other)
{
    const struct policy_snapshot *snapshot = forecast->snapshot;
    size_t count = 0;

    for (size_t i = 0; i < snapshot->job_count; i++)
        if (job_waits(forecast, i))
            order[count++] = (struct ranked){falling(worth(&forecast->decision->placements[i])), i};
    rank_sort(order, other, count);
    for (size_t i = 0; i < count; i++)
        order[i].key = (uint64_t)((int64_t)INT32_MAX - snapshot->jobs[order[i].index].priority);
    rank_sort(order, other, count);
    for (size_t i = 0; i < count; i++) {
        size_t copies = 1 + (size_t)snapshot->jobs[order[i].index].alike;

        while (copies-- && forecast->waiting_count < forecast->limit)
            forecast->waiting[forecast->waiting_count++] = order[i].index;
    }
}

/* ---- loads of the devices -------------------------------------------------------------------- */

static void open_look(struct forecast *forecast, int device)
{
    const struct policy_device *described = &forecast->snapshot->devices[device];
    const struct load *load = &forecast->loads[device];
    bool open = !described->draining && !described->lost;

    if (load->jobs > 0)
        open = open && load->shared &&
               (described->jobs_max == 0 || load->jobs < described->jobs_max) &&
               utilisation_allows(forecast->snapshot, described, load->utilisation, false);
    forecast->open[device / 64] &= ~(UINT64_C(1) << (device % 64));
    if (open)
        policy_mask_add(forecast->open, device);
}

/* Adds the task to the loads (`sign` 1) or removes it (-1). */
static void task_count_in(struct forecast *forecast, const struct task *task, int sign)
{
    const struct policy_estimate *estimate = &task->job->estimates[task->type];

    for (int d = 0; d < (int)forecast->snapshot->device_count; d++) {
        struct load *load = &forecast->loads[d];

        if (!policy_mask_has(task->devices, d))
            continue;
        load->shared = (load->jobs == 0 || load->shared) && task->job->shares;
        load->jobs += sign;
        load->memory =
            sign > 0 ? memory_sum(load->memory, estimate->memory) : load->memory - estimate->memory;
        load->utilisation += sign * job_utilisation(estimate);
        if (load->jobs == 0)
            *load = (struct load){0};
        open_look(forecast, d);
    }
    if (task->job->user != POLICY_NONE)
        forecast->user_devices[task->job->user] += sign * task->job->devices;
}

/* Adds a task for the job on these devices. `now`: when it starts; 0 if it runs already. */
static void task_add(struct forecast *forecast, size_t index, int type, const uint64_t *devices,
                     double now)
{
    const struct policy_job *job = &forecast->snapshot->jobs[index];
    struct task *task = &forecast->tasks[forecast->task_count++];
    double seconds = job->estimates[type].seconds;

    *task = (struct task){.job = job, .type = type, .end = INFINITY};
    if ((job->length_known || job->left_known) && isfinite(seconds))
        task->end = now + fmax(seconds, 0) + (!job->on && job->resumes ? job->restart_seconds : 0);
    memcpy(task->devices, devices, sizeof task->devices);
    task_count_in(forecast, task, 1);
}

static void start_add(struct forecast *forecast, size_t index, double seconds)
{
    if (forecast->start_count < forecast->limit)
        forecast->starts[forecast->start_count++] = (struct forecast_start){index, seconds};
}

/* Adds the tasks that run according to the decision. */
static void tasks_begin(struct forecast *forecast)
{
    const struct policy_snapshot *snapshot = forecast->snapshot;

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_placement *placement = &forecast->decision->placements[i];
        uint64_t devices[POLICY_MASK_WORDS] = {0};

        if (!placement->devices)
            continue;
        for (int d = 0; d < snapshot->jobs[i].devices; d++)
            policy_mask_add(devices, placement->devices[d]);
        task_add(forecast, i, placement->type, devices, 0);
        if (!snapshot->jobs[i].on)
            start_add(forecast, i, 0);
    }
}

/* ---- simulation ------------------------------------------------------------------------------ */

static bool device_takes(const struct forecast *forecast, const struct policy_job *job, int device)
{
    const struct policy_device *described = &forecast->snapshot->devices[device];
    const struct policy_estimate *estimate = &job->estimates[described->type];
    const struct load *load = &forecast->loads[device];

    if (!policy_mask_has(forecast->open, device) || !job_allows(job, device) ||
        !isfinite(estimate->seconds))
        return false;
    if (load->jobs > 0 &&
        (!job->shares || job->devices > 1 ||
         !utilisation_allows(forecast->snapshot, described,
                             load->utilisation + job_utilisation(estimate), false)))
        return false;
    return memory_sum(load->memory, estimate->memory) <= device_limit(described, true) &&
           !device_above_watermark(described, load->memory);
}

/* Chooses the devices of the type that finishes the job soonest; devices that the job prefers come
 * first. Returns the type; POLICY_NONE: too few devices can take the job. */
static int devices_choose(const struct forecast *forecast, const struct policy_job *job,
                          uint64_t *devices)
{
    const struct policy_snapshot *snapshot = forecast->snapshot;
    int counts[2][POLICY_TYPES_MAX] = {0}, chosen = POLICY_NONE;
    double best = INFINITY;
    bool only_preferred = false;

    for (int d = 0; d < (int)snapshot->device_count; d++) {
        if (!device_takes(forecast, job, d))
            continue;
        counts[0][snapshot->devices[d].type]++;
        counts[1][snapshot->devices[d].type] += job_prefers(job, d);
    }
    for (int preferred = job->preferred != NULL; preferred >= 0 && chosen == POLICY_NONE;
         preferred--)
        for (int type = 0; type < snapshot->type_count; type++)
            if (counts[preferred][type] >= job->devices && job->estimates[type].seconds < best) {
                best = job->estimates[type].seconds;
                chosen = type;
                only_preferred = preferred;
            }
    for (int d = 0, left = job->devices; chosen != POLICY_NONE && left > 0; d++)
        if (snapshot->devices[d].type == chosen && device_takes(forecast, job, d) &&
            (!only_preferred || job_prefers(job, d))) {
            policy_mask_add(devices, d);
            left--;
        }
    return chosen;
}

static bool may_be_placed(const struct forecast *forecast, const struct policy_job *job)
{
    uint64_t common = 0;

    for (int word = 0; word < POLICY_MASK_WORDS; word++)
        common |= forecast->open[word] & (job->allowed ? job->allowed[word] : UINT64_MAX);
    if (common && job->user != POLICY_NONE) {
        int most = forecast->snapshot->users[job->user].device_max;

        return most == 0 || forecast->user_devices[job->user] + job->devices <= most;
    }
    return common != 0;
}

static bool any_open(const struct forecast *forecast)
{
    for (int word = 0; word < POLICY_MASK_WORDS; word++)
        if (forecast->open[word])
            return true;
    return false;
}

/* Starts the waiting jobs that the devices can take. */
static void place_waiting(struct forecast *forecast, double now)
{
    size_t left = 0, i = 0;

    for (; i < forecast->waiting_count && any_open(forecast); i++) {
        size_t index = forecast->waiting[i];
        const struct policy_job *job = &forecast->snapshot->jobs[index];
        uint64_t devices[POLICY_MASK_WORDS] = {0};
        int type =
            may_be_placed(forecast, job) ? devices_choose(forecast, job, devices) : POLICY_NONE;

        if (type == POLICY_NONE) {
            forecast->waiting[left++] = index;
            continue;
        }
        start_add(forecast, index, now);
        task_add(forecast, index, type, devices, now);
    }
    memmove(forecast->waiting + left, forecast->waiting + i,
            (forecast->waiting_count - i) * sizeof *forecast->waiting);
    forecast->waiting_count -= i - left;
}

/* Removes the task that ends next, and all that end at the same time. Returns that time in seconds
 * from now; INFINITY: no task has a known end. */
static double tasks_end(struct forecast *forecast)
{
    double next = INFINITY;

    for (size_t i = 0; i < forecast->task_count; i++)
        next = fmin(next, forecast->tasks[i].end);
    for (size_t i = 0; isfinite(next) && i < forecast->task_count;) {
        if (forecast->tasks[i].end > next) {
            i++;
            continue;
        }
        task_count_in(forecast, &forecast->tasks[i], -1);
        forecast->tasks[i] = forecast->tasks[--forecast->task_count];
    }
    return next;
}

static void play(struct forecast *forecast)
{
    double now;

    for (int d = 0; d < (int)forecast->snapshot->device_count; d++)
        open_look(forecast, d);
    tasks_begin(forecast);
    while (forecast->waiting_count && forecast->start_count < forecast->limit &&
           isfinite(now = tasks_end(forecast)))
        place_waiting(forecast, now);
    for (size_t i = 0; i < forecast->waiting_count; i++)
        start_add(forecast, forecast->waiting[i], INFINITY);
}

int forecast_starts(const struct policy_snapshot *snapshot, const struct policy_decision *decision,
                    struct forecast_start *starts, size_t limit)
{
    size_t jobs = snapshot->job_count, on_devices = 0;
    struct forecast *forecast = calloc(1, sizeof *forecast);
    struct ranked *order = malloc((jobs + 1) * 2 * sizeof *order);
    int result = -ENOMEM;

    if (limit > FORECAST_JOBS_MAX)
        limit = FORECAST_JOBS_MAX;
    for (size_t i = 0; i < jobs; i++)
        on_devices += decision->placements[i].devices != NULL;
    if (forecast) {
        forecast->snapshot = snapshot;
        forecast->decision = decision;
        forecast->starts = starts;
        forecast->limit = limit;
        forecast->user_devices = calloc(snapshot->user_count + 1, sizeof(int));
        forecast->tasks = malloc((on_devices + limit) * sizeof *forecast->tasks);
        forecast->waiting = malloc(limit * sizeof *forecast->waiting);
    }
    if (order && forecast && forecast->user_devices && forecast->tasks && forecast->waiting) {
        waiting_fill(forecast, order, order + jobs);
        play(forecast);
        result = (int)forecast->start_count;
    }
    if (forecast) {
        free(forecast->user_devices);
        free(forecast->tasks);
        free(forecast->waiting);
    }
    free(forecast);
    free(order);
    return result;
}
