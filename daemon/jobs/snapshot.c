/* snapshot.c: see snapshot.h. */
#include "daemon/jobs/snapshot.h"

#include "base/clock.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/device_utilisation.h"
#include "daemon/jobs/headroom.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_default.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/job_users.h"
#include "daemon/jobs/move.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/suspend.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"
#include "scheduler/policy.h"
#include "scheduler/predictor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLASSES_MAX = 10000,     /* a decision looks at this many classes, the first ones */
    REPRESENTATIVES_MAX = 64 /* and at this many jobs of a class */
};

/* Seconds that a job loses when it stops and goes on elsewhere, because its checkpoint is written,
 * stored and read. */
static const double restart_seconds = 1;

/* A command of unknown length is assumed to need as much time again as it has taken, but at least
 * this many seconds, an order of magnitude for typical scripts. */
static const double unknown_least_seconds = 60;

/* ---- one job --------------------------------------------------------------------------------- */

/* Whether its processes themselves go on elsewhere: it is suspended, or can leave by that alone. */
static bool keeps_processes(const struct job *job)
{
    return job_is_suspended(job) ||
           (job->attempt && !job->attempt->planning && !job_saves_state(job));
}

static bool may_run_on(const struct jobs *jobs, const struct job *job, const struct device *device)
{
    return job_needs_allow(job->needs, (enum job_kind)job->kind, device) &&
           job_default_allows(jobs, job, device) && !job_obstacle(job, device) &&
           !job_has_better_way(job, device) &&
           (!keeps_processes(job) || job_goes_on_on(jobs, job, device));
}

/* Seconds that the rest of the job takes beside its steps: the evaluations of the plan, or what a
 * running job turns out to need for the ends of epochs and for checkpoints. Another device would
 * not save the latter. */
static double other_seconds(const struct job *job, const struct attempt *attempt,
                            const struct device *device, double left, double step_seconds)
{
    const struct workload *workload = job->workload;
    const struct workload_plan *plan = workload_plan_on(workload, device);
    double planned = plan && plan->step_seconds > 0 ? plan->step_seconds : workload->step_seconds;
    double other = plan && plan->step_seconds > 0 ? plan->other_seconds : workload->other_seconds;
    enum workload_basis basis;
    struct workload_speed here;

    other *= workload->steps > 0 ? left / workload->steps : 0;
    if (!isnan(planned) && planned > 0)
        other *= step_seconds / planned;
    if (!attempt || !attempt->claim.device_count || !attempt->report.has_progress)
        return other;
    here = workload_speed(workload, attempt->claim.devices[0], &basis);
    if (basis == BASIS_MEASURED && attempt->report.progress.seconds_left >= 0)
        other = fmax(other, attempt->report.progress.seconds_left - left * here.step_seconds);
    return other;
}

static double native_seconds(const struct job *job, const struct attempt *attempt,
                             const struct device *device, double *deviation)
{
    const struct workload *workload = job->workload;
    enum workload_basis basis;
    struct workload_speed speed = workload_speed(workload, device, &basis);
    bool here =
        attempt && attempt->claim.device_count && attempt->claim.devices[0]->type == device->type;
    double done = (double)job->steps_done, left, steps, seconds;

    if (here && attempt->report.has_progress && attempt->report.progress.seconds_left >= 0) {
        *deviation = 0;
        return attempt->report.progress.seconds_left;
    }
    if (attempt && attempt->report.has_progress && attempt->report.progress.step > 0)
        done = (double)attempt->report.progress.step;
    left = steps_left(workload->steps, 0, done, 1);
    steps = left * speed.step_seconds;
    seconds = steps + other_seconds(job, attempt, device, left, speed.step_seconds);
    /* only the seconds of the steps are uncertain */
    *deviation = seconds > 0 ? speed.deviation * steps / seconds : speed.deviation;
    return seconds;
}

static double command_seconds(const struct job *job, const struct attempt *attempt,
                              const struct device *device, double now, double *deviation)
{
    double learnt = job->workload->seconds_on[device->type];
    double total = job->needs->seconds > 0 ? job->needs->seconds
                   : isnan(learnt)         ? job->workload->seconds
                                           : learnt;
    double done = attempt ? attempt_run_seconds(attempt, now) : 0;

    *deviation = job->needs->seconds > 0 ? 0 : job->workload->seconds_deviation;
    if (attempt && attempt->claim.devices[0]->type == device->type &&
        attempt->report.progress.seconds_left >= 0) /* the program reports it itself */
        return attempt->report.progress.seconds_left;
    if (isnan(total))
        return steps_left(0, 0, done, unknown_least_seconds);
    return steps_left(total, *deviation, done, 1e-3);
}

static struct policy_estimate estimate_make(const struct jobs *jobs, const struct job *job,
                                            const struct attempt *attempt,
                                            const struct device *device, double now)
{
    struct policy_estimate estimate = {.memory = job_memory(job, device)};

    estimate.seconds = job->kind == JOB_NATIVE
                           ? native_seconds(job, attempt, device, &estimate.deviation)
                           : command_seconds(job, attempt, device, now, &estimate.deviation);
    if (!(estimate.deviation >= 0) || !isfinite(estimate.deviation))
        estimate.deviation = 0;
    estimate.utilisation = job_utilisation_on(jobs, job, attempt, device);
    return estimate;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int reserve_jobs(struct jobs_snapshot *snapshot, size_t count)
{
    size_t capacity = snapshot->capacity ? snapshot->capacity : 64;

    if (count <= snapshot->capacity)
        return 0;
    while (capacity < count)
        capacity *= 2;
    free(snapshot->entries);
    free(snapshot->jobs);
    free(snapshot->estimates);
    free(snapshot->masks);
    free(snapshot->places);
    snapshot->entries = malloc(capacity * sizeof *snapshot->entries);
    snapshot->jobs = malloc(capacity * sizeof *snapshot->jobs);
    snapshot->estimates = malloc(capacity * DEVICE_TYPES_MAX * sizeof *snapshot->estimates);
    snapshot->masks = malloc(capacity * sizeof *snapshot->masks);
    snapshot->places = malloc(capacity * sizeof *snapshot->places);
    snapshot->capacity = 0;
    if (!snapshot->entries || !snapshot->jobs || !snapshot->estimates || !snapshot->masks ||
        !snapshot->places)
        return -ENOMEM;
    snapshot->capacity = capacity;
    return 0;
}

static int reserve_users(struct jobs_snapshot *snapshot, size_t count)
{
    struct policy_user *users;

    if (count <= snapshot->user_capacity)
        return 0;
    users = realloc(snapshot->users, count * 2 * sizeof *users);
    if (!users)
        return -ENOMEM;
    snapshot->users = users;
    snapshot->user_capacity = count * 2;
    return 0;
}

void jobs_snapshot_release(struct jobs_snapshot *snapshot)
{
    free(snapshot->entries);
    free(snapshot->devices);
    free(snapshot->jobs);
    free(snapshot->estimates);
    free(snapshot->masks);
    free(snapshot->places);
    free(snapshot->users);
    free(snapshot->workspace);
    *snapshot = (struct jobs_snapshot){0};
}

/* ---- filling in ------------------------------------------------------------------------------ */

/* The name of a type in sentences: its only device, or what its devices have in common. */
static const char *name_of_type(const struct devices *devices, int type)
{
    const struct device *only = NULL;

    for (size_t i = 0; i < devices->count; i++) {
        if (devices->list[i]->type != type)
            continue;
        if (only)
            return devices->type_names[type];
        only = devices->list[i];
    }
    return only ? only->name : devices->type_names[type];
}

/* What jobs hold that only wait there: nobody can make them leave. */
static uint64_t memory_of_suspended(const struct device *device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < device->claim_count; i++)
        bytes += device->claims[i]->suspended ? device->claims[i]->memory_booked : 0;
    return bytes;
}

/* What counts as others' besides what was measured: memory for jobs that ramp up, and what is held
 * by jobs that only wait there. */
static uint64_t memory_reserved(const struct device *device)
{
    uint64_t bytes = headroom_ramp_up_reserve(device, clock_now()) + memory_of_suspended(device);

    for (const struct device *sharer = device->sharers; sharer; sharer = sharer->next_sharer)
        bytes += headroom_ramp_up_reserve(sharer, clock_now()) + memory_of_suspended(sharer);
    return bytes;
}

static int add_devices(struct jobs *jobs, struct jobs_snapshot *snapshot)
{
    const struct devices *devices = jobs->daemon->devices;
    bool shared = false;

    if (!snapshot->devices)
        snapshot->devices = calloc(DEVICES_MAX, sizeof *snapshot->devices);
    if (!snapshot->devices)
        return -ENOMEM;
    for (size_t i = 0; i < devices->count; i++) {
        const struct device *device = devices->list[i];
        enum device_health health = device_health_of_hardware(device);

        snapshot->devices[i] = (struct policy_device){
            .name = device->name,
            .type = device->type,
            .jobs_max = device->slots > 0 ? device->slots : 0,
            .memory_capacity = device->memory_total,
            /* what leaves is about to be free: only starts wait for it (waiting.c) */
            .memory_outside = (device_is_unmeasured(device) ? 0 : device->memory_outside) +
                              memory_reserved(device),
            .high_watermark_ratio = device->high_watermark_ratio,
            .low_watermark_ratio = device->low_watermark_ratio,
            .utilisation_limit = device_utilisation_limit(device),
            .draining = health == DEVICE_DRAINING || health == DEVICE_QUARANTINED,
            .lost = health == DEVICE_LOST,
            .same_hardware = device->same_hardware,
        };
        snapshot->ledgers[i] = (int)device_ledger(device)->index;
        shared = shared || device->ledger;
    }
    for (int type = 0; type < devices->type_count; type++)
        snapshot->type_names[type] = name_of_type(devices, type);
    snapshot->policy.type_names = snapshot->type_names;
    snapshot->policy.type_count = devices->type_count;
    snapshot->policy.devices = snapshot->devices;
    snapshot->policy.device_count = devices->count;
    snapshot->policy.ledgers = shared ? snapshot->ledgers : NULL;
    return 0;
}

static void fill_masks(const struct jobs *jobs, const struct job *job,
                       uint64_t masks[2][POLICY_MASK_WORDS])
{
    const struct devices *devices = jobs->daemon->devices;

    memset(masks, 0, 2 * sizeof *masks);
    for (size_t d = 0; d < devices->count; d++) {
        if (may_run_on(jobs, job, devices->list[d]))
            policy_mask_add(masks[0], (int)d);
        if (job->needs->prefer && device_matches(devices->list[d], job->needs->prefer))
            policy_mask_add(masks[1], (int)d);
    }
}

/* Whether the job is on that device, where it goes on even if it could not be started there: after
 * a start of the daemon nobody knows for a while what a device can train. */
static bool is_on(const struct attempt *attempt, const struct device *device)
{
    for (int i = 0; attempt && i < attempt->claim.device_count; i++)
        if (attempt->claim.devices[i] == device)
            return true;
    return false;
}

static void fill_estimates(const struct jobs *jobs, const struct job *job,
                           const struct attempt *attempt, double now,
                           struct policy_estimate *estimates)
{
    const struct devices *devices = jobs->daemon->devices;

    for (int type = 0; type < devices->type_count; type++)
        estimates[type] = (struct policy_estimate){.seconds = INFINITY};
    for (size_t d = 0; d < devices->count; d++)
        if (isinf(estimates[devices->list[d]->type].seconds) &&
            (may_run_on(jobs, job, devices->list[d]) || is_on(attempt, devices->list[d])))
            estimates[devices->list[d]->type] =
                estimate_make(jobs, job, attempt, devices->list[d], now);
}

/* The estimates of a job, one for each existing type. They lie without gaps, because a decision
 * goes through all jobs several times. */
static struct policy_estimate *estimates_of(const struct jobs_snapshot *snapshot, size_t index)
{
    return &snapshot->estimates[index * (size_t)snapshot->policy.type_count];
}

static struct policy_job *add_entry(struct jobs_snapshot *snapshot, struct job *job,
                                    struct attempt *attempt, struct job_class *class)
{
    size_t index = snapshot->policy.job_count++;
    struct policy_job *entry = &snapshot->jobs[index];

    snapshot->entries[index] = (struct snapshot_job){job, attempt, class};
    *entry = (struct policy_job){
        .user = POLICY_NONE,
        .devices = 1,
        .restart_seconds = restart_seconds,
        .estimates = estimates_of(snapshot, index),
        .allowed = snapshot->masks[index][0],
    };
    return entry;
}

static void describe_job(struct jobs *jobs, struct jobs_snapshot *snapshot, const struct job *job,
                         struct policy_job *entry, double now)
{
    size_t index = (size_t)(entry - snapshot->jobs);

    entry->id = job->id;
    entry->user = job_users_index(jobs, job->uid);
    entry->priority = job->priority;
    entry->put_first = job->put_first;
    entry->devices = job->needs->devices;
    entry->waited = job->waited + (job->waits_since > 0 ? fmax(now - job->waits_since, 0) : 0);
    entry->resumes = job->attempt_number > 0;
    entry->restart_seconds = job_suspension_seconds(jobs, job, restart_seconds);
    entry->length_known =
        job->kind == JOB_NATIVE || job->needs->seconds > 0 || !isnan(job->workload->seconds);
    entry->left_known = job->attempt && job->attempt->report.progress.seconds_left >= 0;
    entry->yields = job_yields(job);
    entry->shares = job->needs->devices == 1;
    fill_masks(jobs, job, snapshot->masks[index]);
    entry->pinned = job->needs->pinned;
    if (job->needs->prefer)
        entry->preferred = snapshot->masks[index][1];
    fill_estimates(jobs, job, job->attempt, now, estimates_of(snapshot, index));
}

/* ---- what runs ------------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Whether it is not known yet how much of its devices' memory is its own: then nobody leaves. */
static bool is_unmeasured(const struct attempt *attempt)
{
    for (int i = 0; i < attempt->claim.device_count; i++)
        if (device_is_unmeasured(attempt->claim.devices[i]))
            return true;
    return false;
}

static void add_running(struct jobs *jobs, struct jobs_snapshot *snapshot, struct attempt *attempt,
                        double now)
{
    struct job *job = attempt->job && !attempt->job->ended ? attempt->job : NULL;
    struct policy_job *entry = add_entry(snapshot, job, attempt, NULL);
    size_t index = (size_t)(entry - snapshot->jobs);
    struct policy_estimate *estimates = estimates_of(snapshot, index);
    int *places = snapshot->places[index];

    if (job) {
        describe_job(jobs, snapshot, job, entry, now);
        entry->movable = job_seconds_to_movable(jobs, job) <= 0 && !is_unmeasured(attempt);
        entry->starved = attempt->starved;
    } else {
        entry->id = attempt->job_id;
        memset(snapshot->masks[index], 0xff, sizeof snapshot->masks[index]);
        for (int type = 0; type < snapshot->policy.type_count; type++)
            estimates[type] = (struct policy_estimate){.seconds = 1};
        entry->left_known = true;
    }
    for (int i = 0; i < attempt->claim.device_count; i++)
        places[i] = (int)attempt->claim.devices[i]->index;
    qsort(places, (size_t)attempt->claim.device_count, sizeof *places, compare_places);
    entry->devices = attempt->claim.device_count;
    entry->on = places;
    /* it holds what was booked for it, whatever its need is estimated to be by now */
    estimates[attempt->claim.devices[0]->type].memory = attempt->claim.memory_booked;
    if (isinf(estimates[attempt->claim.devices[0]->type].seconds))
        estimates[attempt->claim.devices[0]->type].seconds = 1;
    for (int i = 0; i < attempt->claim.device_count; i++)
        policy_mask_add(snapshot->masks[index][0], places[i]);
}

static void add_all_running(struct jobs *jobs, struct jobs_snapshot *snapshot, double now)
{
    const struct devices *devices = jobs->daemon->devices;

    for (size_t d = 0; d < devices->count; d++) {
        const struct device *device = devices->list[d];

        for (size_t i = 0; i < device->claim_count; i++)
            if (device->claims[i]->devices[0] == device && /* once for several devices */
                !device->claims[i]->suspended)
                add_running(jobs, snapshot, device->claims[i]->attempt, now);
    }
    snapshot->running_count = snapshot->policy.job_count;
}

/* ---- what waits ------------------------------------------------------------------------------ */

/* How many jobs like this one all devices together could take at once. */
static size_t representatives_of(const struct jobs *jobs, const struct job *job)
{
    const struct devices *devices = jobs->daemon->devices;
    double count = 0;

    for (size_t d = 0; d < devices->count; d++)
        count += floor(device_utilisation_limit(devices->list[d]) /
                           job_utilisation_on(jobs, job, NULL, devices->list[d]) +
                       1e-9);
    return count < 1 ? 1 : count < REPRESENTATIVES_MAX ? (size_t)count : REPRESENTATIVES_MAX;
}

static size_t count_of_class(const struct jobs *jobs, const struct job_class *class)
{
    size_t limit = class->waiting.count ? representatives_of(jobs, class->waiting.jobs[0]) : 0;

    return class->waiting.count < limit ? class->waiting.count : limit;
}

/* Fills `first` with the first `count` jobs of the heap, in order. */
static void first_of_heap(const struct job_queue *queue, struct job **first, size_t count)
{
    size_t open[REPRESENTATIVES_MAX + 2], open_count = 1;

    open[0] = 0;
    for (size_t i = 0; i < count; i++) {
        size_t best = 0, at;

        for (size_t k = 1; k < open_count; k++)
            if (queue->jobs[open[k]]->id < queue->jobs[open[best]]->id)
                best = k;
        at = open[best];
        first[i] = queue->jobs[at];
        open[best] = open[--open_count];
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < queue->count; child++)
            open[open_count++] = child;
    }
}

static void add_class(struct jobs *jobs, struct jobs_snapshot *snapshot, struct job_class *class,
                      double now)
{
    struct job *first[REPRESENTATIVES_MAX];
    size_t count = count_of_class(jobs, class);

    first_of_heap(&class->waiting, first, count);
    if (count && first[0]->kind == JOB_NATIVE && device_backends_pending(jobs->daemon))
        return; /* it will soon be known where they can run */
    class->snapshot = snapshot->number;
    class->first_in_snapshot = snapshot->policy.job_count;
    class->count_in_snapshot = count;
    for (size_t i = 0; i < count; i++) {
        struct policy_job *entry = add_entry(snapshot, first[i], NULL, class);

        describe_job(jobs, snapshot, first[i], entry, now);
        if (i + 1 == count)
            entry->alike = (int)(class->waiting.count - count);
    }
}

/* The compiler removes calls of functions that only prefetch, unless they are inlined. */
#define FETCHES __attribute__((always_inline)) static inline

FETCHES void fetch(const void *begin, const void *end)
{
    enum { CACHE_LINE = 64 };

    for (const char *at = begin; at < (const char *)end; at += CACHE_LINE)
        __builtin_prefetch(at);
    __builtin_prefetch((const char *)end - 1);
}

/* Prefetches what the description of the next classes will read: a job, its needs and its workload
 * lie far apart in memory. With 10,000 different jobs this reduced the description from 1.5 to 0.7
 * ms of a decision (tests/bench/scale). */
FETCHES void fetch_ahead(struct job_class *const *classes, size_t count)
{
    enum { CLASSES_AHEAD = 16, QUEUES_AHEAD = 12, JOBS_AHEAD = 8, WORKLOADS_AHEAD = 4 };

    if (count > CLASSES_AHEAD)
        fetch(classes[CLASSES_AHEAD], classes[CLASSES_AHEAD] + 1);
    if (count > QUEUES_AHEAD) {
        __builtin_prefetch(classes[QUEUES_AHEAD]->waiting.jobs);
        fetch(&classes[QUEUES_AHEAD]->needs->allow, classes[QUEUES_AHEAD]->needs + 1);
    }
    if (count > JOBS_AHEAD) {
        const struct job *job = classes[JOBS_AHEAD]->waiting.jobs[0];

        fetch(&job->workload, job + 1);
    }
    if (count > WORKLOADS_AHEAD) {
        const struct job *job = classes[WORKLOADS_AHEAD]->waiting.jobs[0];

        fetch(&job->workload->runs, job->workload + 1);
    }
}

static int make(struct jobs *jobs, struct jobs_snapshot *snapshot, struct job *guest)
{
    size_t class_count, running = 0, waiting = 0;
    struct job_class *const *classes = job_classes_sorted(jobs->classes, &class_count);
    double now = clock_now();
    int result;

    if (class_count > CLASSES_MAX)
        class_count = CLASSES_MAX;
    for (size_t d = 0; d < jobs->daemon->devices->count; d++)
        running += jobs->daemon->devices->list[d]->claim_count;
    for (size_t i = 0; i < class_count; i++)
        waiting += count_of_class(jobs, classes[i]);
    snapshot->policy = (struct policy_snapshot){.settings = policy_settings_default()};
    result = reserve_jobs(snapshot, running + waiting + (guest ? 1 : 0));
    if (result == 0)
        result = reserve_users(snapshot, job_users_number(jobs));
    if (result == 0)
        result = add_devices(jobs, snapshot);
    if (result < 0)
        return result;
    for (size_t i = 0; i < job_users_number(jobs); i++)
        snapshot->users[i] = job_users_policy(jobs, i);
    snapshot->policy.users = snapshot->users;
    snapshot->policy.user_count = job_users_number(jobs);
    snapshot->policy.jobs = snapshot->jobs;
    add_all_running(jobs, snapshot, now);
    for (size_t i = 0; i < class_count; i++) {
        fetch_ahead(&classes[i], class_count - i);
        add_class(jobs, snapshot, classes[i], now);
    }
    if (guest)
        describe_job(jobs, snapshot, guest, add_entry(snapshot, guest, NULL, NULL), now);
    return 0;
}

int jobs_snapshot_decide(struct jobs *jobs, struct job *guest)
{
    struct jobs_snapshot *snapshot = jobs->snapshot;
    size_t size;
    int result;

    snapshot->decided = false;
    snapshot->number++;
    result = make(jobs, snapshot, guest);
    if (result < 0)
        return result;
    size = policy_workspace_size(&snapshot->policy);
    if (size > snapshot->workspace_size) {
        free(snapshot->workspace);
        snapshot->workspace = malloc(size * 2);
        snapshot->workspace_size = snapshot->workspace ? size * 2 : 0;
        if (!snapshot->workspace)
            return -ENOMEM;
    }
    result = policy_decide(&snapshot->policy, snapshot->workspace, snapshot->workspace_size,
                           &snapshot->decision);
    snapshot->decided = result == 0 && !guest;
    return result;
}
