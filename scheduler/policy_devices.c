/* policy_devices.c: names the devices of every placed job, and lets jobs share devices.
 *
 * Sharing comes last. It starts from a solution in which no job shares. As long as the sum of
 * values grows, the job that gains most joins a device, or takes one that has become free. The
 * ledger, the low watermark, jobs_max and utilisation_limit must allow that. Jobs whose
 * utilisations add up to at most 1 do not slow each other down. Above 1, each runs at 1 / sum of
 * its speed. */
#include "scheduler/policy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The jobs placed on one device so far. */
struct load {
    uint64_t memory;
    double utilisation, value; /* sums over its jobs; value as if each were alone */
    int jobs, highest_priority;
    bool shared; /* all its jobs may share */
};

/* The most joinings in one decision: per device, and at least. Each running job may need one
 * more. */
enum { JOININGS_OF_A_DEVICE = 4, JOININGS_MIN = 64 };

static double share_speed(double utilisation)
{
    return utilisation > 1 ? 1 / utilisation : 1;
}

static void load_add(struct load *load, const struct policy_job *job,
                     const struct policy_estimate *estimate, double value)
{
    if (load->jobs == 0)
        *load = (struct load){.shared = true, .highest_priority = job->priority};
    load->memory = memory_sum(load->memory, estimate->memory);
    load->utilisation += job_utilisation(estimate);
    load->value += value;
    load->jobs++;
    load->shared &= job->shares && job->devices == 1;
    if (job->priority > load->highest_priority)
        load->highest_priority = job->priority;
}

static int *take_device_list(struct policy_run *run, int count)
{
    int *list = run->device_lists + run->device_list_at;

    run->device_list_at += (size_t)count;
    return list;
}

static void set_devices(struct policy_run *run, size_t index, const int *devices, int type,
                        struct load *loads)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    struct policy_placement *placement = &run->placements[index];
    int *list = take_device_list(run, job->devices);

    memcpy(list, devices, (size_t)job->devices * sizeof *list);
    placement->devices = list;
    placement->type = type;
    for (int d = 0; d < job->devices; d++)
        load_add(&loads[list[d]], job, &job->estimates[type], placement->value / job->devices);
}

/* The value of the job alone on the device; if it runs there already, it needs no restart. */
static double value_on_device(const struct policy_run *run, size_t index, int device)
{
    const struct policy_job *job = &run->snapshot->jobs[index];

    return value_on_type(run->snapshot, job, &run->values[index],
                         run->snapshot->devices[device].type, job_prefers(job, device),
                         job->on && job->on[0] == device);
}

static int compare_indices(const void *a, const void *b)
{
    size_t left = *(const size_t *)a, right = *(const size_t *)b;

    return (left > right) - (left < right);
}

static void sort_devices(int *devices, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && devices[j] < devices[j - 1]; j--) {
            int device = devices[j];

            devices[j] = devices[j - 1];
            devices[j - 1] = device;
        }
}

/* Chooses free devices from the option's pools, the lowest numbers first. */
static void choose_devices(const struct policy_run *run, const struct solve_option *option,
                           const struct load *loads, int *devices)
{
    int count = 0;

    for (int p = 0; p < option->part_count; p++) {
        int pool = option->parts[p].pool, wanted = option->parts[p].count;

        if (run->pools[pool].base != POOL_NONE)
            pool = run->pools[pool].base;
        for (int d = 0; d < (int)run->snapshot->device_count && wanted > 0; d++) {
            bool mine = false;

            for (int i = 0; i < count; i++)
                mine |= devices[i] == d;
            if (run->device_pool[d] != pool || loads[d].jobs > 0 || mine)
                continue;
            devices[count++] = d;
            wanted--;
        }
    }
    sort_devices(devices, count);
}

/* Names devices first for the jobs that stay, so that no other job takes theirs. */
static void name_devices(struct policy_run *run, struct load *loads)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    int devices[POLICY_DEVICES_MAX];

    qsort(run->placed, run->placed_count, sizeof *run->placed, compare_indices);
    for (int moving = 0; moving < 2; moving++) {
        for (size_t k = 0; k < run->placed_count; k++) {
            size_t i = run->placed[k];
            const struct policy_job *job = &snapshot->jobs[i];
            const struct solve_option *option = &run->choices[i].option;

            if (option->stays == moving)
                continue;
            if (option->stays)
                memcpy(devices, job->on, (size_t)job->devices * sizeof *devices);
            else
                choose_devices(run, option, loads, devices);
            run->placements[i].value = option->value;
            set_devices(run, i, devices, option->type, loads);
        }
    }
}

/* Jobs that cannot be moved keep their devices, which belong to no pool. */
static void set_unmovable(struct policy_run *run, struct load *loads)
{
    const struct policy_snapshot *snapshot = run->snapshot;

    for (size_t i = 0; i < run->running_count; i++) {
        size_t index = run->running[i];
        const struct policy_job *job = &snapshot->jobs[index];

        if (job->movable)
            continue;
        run->placements[index].value = value_on_device(run, index, job->on[0]);
        set_devices(run, index, job->on, snapshot->devices[job->on[0]].type, loads);
    }
}

/* ---- sharing --------------------------------------------------------------------------------- */

static bool held_for_another(const struct policy_run *run, int device)
{
    for (int p = 0; p < run->pool_count; p++)
        if (run->pools[p].base != POOL_NONE && run->pools[p].base == run->device_pool[device])
            return true;
    return false;
}

static bool memory_allows(const struct policy_device *device, uint64_t limit,
                          const struct load *load, uint64_t memory, bool here)
{
    uint64_t booked = load->jobs > 0 ? load->memory : 0;

    return memory <= limit && booked <= limit - memory &&
           (here || !device_above_watermark(device, booked));
}

/* What is placed so far, computed once for each joining and not for each job. */
struct placed_loads {
    const struct load *loads;                 /* of each device */
    struct load hardware[POLICY_DEVICES_MAX]; /* with what is on the other ways to its GPU */
    uint64_t booked[POLICY_DEVICES_MAX];      /* of each ledger */
};

/* What is on the device and on the other ways to the same GPU. */
static struct load load_of_hardware(const struct policy_run *run, const struct load *loads,
                                    int device)
{
    struct load sum = loads[device];

    for (int d = 0; run->snapshot->ledgers && d < (int)run->snapshot->device_count; d++) {
        const struct load *load = &loads[d];

        if (d == device || load->jobs == 0 || !device_is_same_hardware(run->snapshot, device, d))
            continue;
        sum.shared = load->shared && (sum.jobs == 0 || sum.shared);
        if (sum.jobs == 0 || load->highest_priority > sum.highest_priority)
            sum.highest_priority = load->highest_priority;
        sum.jobs += load->jobs;
        sum.utilisation += load->utilisation;
        sum.value += load->value;
    }
    return sum; /* its memory is the device's own */
}

static void placed_loads_count(struct placed_loads *placed, const struct policy_run *run,
                               const struct load *loads)
{
    int devices = (int)run->snapshot->device_count;

    placed->loads = loads;
    for (int d = 0; d < devices; d++) {
        placed->hardware[d] = load_of_hardware(run, loads, d);
        placed->booked[d] = 0;
    }
    for (int d = 0; d < devices; d++) {
        uint64_t *booked = &placed->booked[ledger_of(run->snapshot, d)];

        *booked = memory_sum(*booked, loads[d].jobs > 0 ? loads[d].memory : 0);
    }
}

/* Whether the ledger that the device shares with others has room for the job's memory there. The
 * job may be on one of them now. */
static bool ledger_has_room(const struct policy_run *run, const struct placed_loads *placed,
                            size_t index, int device, bool here)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    const struct policy_job *job = &snapshot->jobs[index];
    const struct policy_placement *placement = &run->placements[index];
    int ledger = ledger_of(snapshot, device);
    uint64_t booked = placed->booked[ledger];
    uint64_t memory = job->estimates[snapshot->devices[device].type].memory;

    if (!snapshot->ledgers)
        return true;
    if (placement->devices && ledger_of(snapshot, placement->devices[0]) == ledger &&
        booked < UINT64_MAX)
        booked -= job->estimates[placement->type].memory;
    return memory <= run->limit_now[ledger] && booked <= run->limit_now[ledger] - memory &&
           (here || !device_above_watermark(&snapshot->devices[ledger], booked));
}

/* Whether the device can take the job, before its value is computed. */
static bool has_room(const struct policy_run *run, const struct placed_loads *placed, size_t index,
                     int device)
{
    const struct load *load = &placed->hardware[device], *own = &placed->loads[device];
    const struct policy_job *job = &run->snapshot->jobs[index];
    const struct policy_device *to = &run->snapshot->devices[device];
    const struct policy_estimate *estimate = &job->estimates[to->type];
    /* the limits of the GPU itself are those of its first way */
    const struct policy_device *way =
        to->same_hardware ? &run->snapshot->devices[ledger_of(run->snapshot, device)] : to;
    bool here = job->on && job->on[0] == device;

    if (to->lost || (to->draining && !here) || !isfinite(estimate->seconds) ||
        !job_may_use(run, job, device) ||
        !memory_allows(to, run->limit_now[device], own, estimate->memory, here) ||
        !ledger_has_room(run, placed, index, device, here))
        return false;
    if (load->jobs == 0)
        return !held_for_another(run, device);
    return load->shared && job->shares && (to->jobs_max <= 0 || own->jobs < to->jobs_max) &&
           (way->jobs_max <= 0 || load->jobs < way->jobs_max) &&
           utilisation_allows(run->snapshot, way, load->utilisation + job_utilisation(estimate),
                              here);
}

/* How much the sum of values grows if the job joins the device, which must have room. */
static double join_gain(const struct policy_run *run, size_t index, int device,
                        const struct load *load)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    int type = run->snapshot->devices[device].type;
    double speed, value = value_on_device(run, index, device);

    if (load->jobs == 0)
        return value - run->placements[index].value;
    speed = share_speed(load->utilisation + job_utilisation(&job->estimates[type]));
    if (speed < 1 && load->highest_priority > job->priority)
        return 0;
    return value * speed - run->placements[index].value -
           load->value * (share_speed(load->utilisation) - speed);
}

/* A job that may join another device, shared or free. */
struct sharer {
    size_t job;
    double most; /* an upper bound of the sum's gain by this job */
    int priority;
    bool shares;
};

/* The jobs that may join a device, and the placed jobs, both in the snapshot's order. */
struct sharing {
    struct load *loads;
    struct sharer *sharers;
    size_t *placed;
    size_t sharer_count, placed_count;
};

static struct sharing take_sharing(struct workspace *workspace,
                                   const struct policy_snapshot *snapshot)
{
    struct sharing sharing = {0};

    sharing.loads = workspace_take(workspace, snapshot->device_count, sizeof *sharing.loads);
    sharing.sharers = workspace_take(workspace, snapshot->job_count, sizeof *sharing.sharers);
    sharing.placed = workspace_take(workspace, snapshot->job_count, sizeof *sharing.placed);
    return sharing;
}

size_t sharing_workspace_size(const struct policy_snapshot *snapshot)
{
    struct workspace counted = {0};

    take_sharing(&counted, snapshot);
    return counted.taken;
}

static void loads_recount(const struct policy_run *run, struct sharing *sharing)
{
    const struct policy_snapshot *snapshot = run->snapshot;

    memset(sharing->loads, 0, snapshot->device_count * sizeof *sharing->loads);
    for (size_t i = 0; i < sharing->placed_count; i++) {
        const struct policy_job *job = &snapshot->jobs[sharing->placed[i]];
        const struct policy_placement *placement = &run->placements[sharing->placed[i]];

        for (int d = 0; d < job->devices; d++)
            load_add(&sharing->loads[placement->devices[d]], job, &job->estimates[placement->type],
                     placement->value / job->devices);
    }
}

/* Whether the job may join a device other than the one that it has. */
static bool may_join(const struct policy_run *run, size_t index)
{
    const struct policy_job *job = &run->snapshot->jobs[index];

    return job->devices == 1 && !(job->on && !job->movable) &&
           !(run->placements[index].starving && run->placements[index].devices) &&
           run->values[index].base > 0;
}

/* A gain of a higher priority is better; a difference within rounding is not. */
static bool is_better(const struct policy_job *job, double gain, const struct policy_job *best,
                      double best_gain)
{
    if (!best || job->priority != best->priority)
        return !best || job->priority > best->priority;
    return gain > best_gain * (1 + 1e-9);
}

static void join(struct policy_run *run, struct sharing *sharing, size_t index, int device)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    const struct policy_job *job = &snapshot->jobs[index];
    struct policy_placement *placement = &run->placements[index];
    int *list = (int *)placement->devices;

    if (!list) {
        size_t at = sharing->placed_count++;

        list = take_device_list(run, 1);
        if (job->user != POLICY_NONE)
            run->user_devices[job->user]++;
        for (; at > 0 && sharing->placed[at - 1] > index; at--)
            sharing->placed[at] = sharing->placed[at - 1];
        sharing->placed[at] = index;
    }
    list[0] = device;
    placement->devices = list;
    placement->type = snapshot->devices[device].type;
    placement->value = value_on_device(run, index, device);
}

/* A job that may join a device, and how much the sum of values gains. */
struct joining {
    size_t job;
    int device; /* POLICY_NONE: none yet */
    double gain;
};

/* Replaces `best` by the job's best joining if that is better. */
static void find_joining(const struct policy_run *run, const struct placed_loads *placed,
                         size_t index, struct joining *best)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    const struct policy_placement *placement = &run->placements[index];
    int now = placement->devices ? placement->devices[0] : POLICY_NONE;

    for (int d = 0; d < (int)run->snapshot->device_count; d++) {
        double gain;

        if (d == now || !has_room(run, placed, index, d))
            continue;
        gain = join_gain(run, index, d, &placed->hardware[d]);
        if (gain > 0 &&
            is_better(job, gain,
                      best->device == POLICY_NONE ? NULL : &run->snapshot->jobs[best->job],
                      best->gain))
            *best = (struct joining){index, d, gain};
    }
}

/* No place gives a job more value than its base; the factor allows for rounding. */
static double most_to_gain(const struct policy_run *run, size_t index)
{
    return run->values[index].base * (1 + 1e-12) - run->placements[index].value;
}

/* Whether the job cannot be better than `best`. */
static bool is_hopeless(const struct policy_run *run, const struct sharer *sharer,
                        const struct joining *best)
{
    int other;

    if (sharer->most <= 0 || best->device == POLICY_NONE)
        return sharer->most <= 0;
    other = run->snapshot->jobs[best->job].priority;
    return sharer->priority < other || (sharer->priority == other && sharer->most <= best->gain);
}

static bool any_is_empty(const struct policy_run *run, const struct load *loads)
{
    for (size_t d = 0; d < run->snapshot->device_count; d++)
        if (loads[d].jobs == 0)
            return true;
    return false;
}

static void sharing_begin(const struct policy_run *run, struct sharing *sharing)
{
    for (size_t i = 0; i < run->snapshot->job_count; i++) {
        const struct policy_job *job = &run->snapshot->jobs[i];

        if (run->placements[i].devices)
            sharing->placed[sharing->placed_count++] = i;
        if (may_join(run, i))
            sharing->sharers[sharing->sharer_count++] =
                (struct sharer){i, most_to_gain(run, i), job->priority, job->shares};
    }
}

static struct joining find_best_joining(const struct policy_run *run, const struct sharing *sharing)
{
    struct joining best = {.device = POLICY_NONE};
    bool empty = any_is_empty(run, sharing->loads);
    struct placed_loads placed;

    placed_loads_count(&placed, run, sharing->loads);
    for (size_t i = 0; i < sharing->sharer_count; i++) {
        const struct sharer *sharer = &sharing->sharers[i];

        if ((empty || sharer->shares) && !is_hopeless(run, sharer, &best) &&
            (run->placements[sharer->job].devices ||
             !user_is_at_limit(run, &run->snapshot->jobs[sharer->job])))
            find_joining(run, &placed, sharer->job, &best);
    }
    return best;
}

static void share_devices(struct policy_run *run, struct sharing *sharing)
{
    size_t rounds = JOININGS_OF_A_DEVICE * run->snapshot->device_count;

    rounds = (rounds < JOININGS_MIN ? JOININGS_MIN : rounds) + run->running_count;
    for (size_t round = 0; round < rounds; round++) {
        struct joining best = find_best_joining(run, sharing);

        if (best.device == POLICY_NONE)
            return;
        join(run, sharing, best.job, best.device);
        for (size_t i = 0; i < sharing->sharer_count; i++)
            if (sharing->sharers[i].job == best.job)
                sharing->sharers[i].most = most_to_gain(run, best.job);
        loads_recount(run, sharing);
    }
}

void place_on_devices(struct policy_run *run)
{
    struct workspace workspace = run->workspace;
    struct sharing sharing = take_sharing(&workspace, run->snapshot);
    bool shares = run->snapshot->ledgers != NULL; /* places may have been taken back */

    memset(sharing.loads, 0, run->snapshot->device_count * sizeof *sharing.loads);
    set_unmovable(run, sharing.loads);
    name_devices(run, sharing.loads);
    for (size_t i = 0; i < run->snapshot->job_count; i++)
        shares |= run->snapshot->jobs[i].shares;
    if (shares) {
        sharing_begin(run, &sharing);
        share_devices(run, &sharing);
    }
    for (size_t i = 0; i < run->snapshot->job_count; i++)
        run->placements[i].shared =
            run->placements[i].devices && sharing.loads[run->placements[i].devices[0]].jobs > 1;
}
