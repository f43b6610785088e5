/* policy_pools.c: groups devices into pools, and lists each job's options in them. */
#include "scheduler/policy_internal.h"

#include <math.h>
#include <string.h>

bool device_above_watermark(const struct policy_device *device, uint64_t booked)
{
    double low = device->low_watermark_ratio, high = device->high_watermark_ratio;
    double ratio = low > 0 && !(high > 0 && high < low) ? low : high;

    return ratio > 0 && device->memory_capacity > 0 &&
           (double)device->memory_outside + (double)booked >
               ratio * (double)device->memory_capacity;
}

uint64_t device_limit(const struct policy_device *device, bool now)
{
    double limit;

    if (device->high_watermark_ratio <= 0 || device->memory_capacity == 0)
        return UINT64_MAX;
    limit = device->high_watermark_ratio * (double)device->memory_capacity;
    if (now)
        limit -= (double)device->memory_outside;
    if (limit >= 0x1p64)
        return UINT64_MAX;
    return limit > 0 ? (uint64_t)limit : 0;
}

void memory_of_running(const struct policy_snapshot *snapshot, uint64_t *held)
{
    memset(held, 0, snapshot->device_count * sizeof *held);
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];

        for (int d = 0; job->on && d < job->devices; d++)
            held[job->on[d]] = memory_sum(
                held[job->on[d]], job->estimates[snapshot->devices[job->on[d]].type].memory);
    }
}

bool device_has_beside(const struct policy_device *device, uint64_t held, uint64_t memory)
{
    return memory_sum(held, memory) <= device_limit(device, true);
}

/* Whether the device and its ledger have `memory` bytes beside what the running jobs hold. */
static bool has_beside_running(const struct policy_run *run, int device, uint64_t memory)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    int ledger = ledger_of(snapshot, device);
    uint64_t held = 0;

    for (int d = 0; snapshot->ledgers && d < (int)snapshot->device_count; d++)
        if (ledger_of(snapshot, d) == ledger)
            held = memory_sum(held, run->held_now[d]);
    return device_has_beside(&snapshot->devices[device], run->held_now[device], memory) &&
           (!snapshot->ledgers || device_has_beside(&snapshot->devices[ledger], held, memory));
}

bool job_may_use(const struct policy_run *run, const struct policy_job *job, int device)
{
    return job_allows(job, device) &&
           (!job->yields || run->placements[job - run->snapshot->jobs].starving ||
            has_beside_running(run, device,
                               job->estimates[run->snapshot->devices[device].type].memory));
}

/* Takes the devices of jobs that cannot be moved out of all pools; counts the jobs on each
 * device. */
static void pin_devices(struct policy_run *run, int *residents)
{
    const struct policy_snapshot *snapshot = run->snapshot;

    for (size_t i = 0; i < snapshot->device_count; i++) {
        run->device_pool[i] = snapshot->devices[i].lost ? POOL_NONE : 0;
        run->device_until[i] = snapshot->devices[i].lost ? INFINITY : 0;
        residents[i] = 0;
    }
    for (size_t i = 0; i < run->running_count; i++) {
        const struct policy_job *job = &snapshot->jobs[run->running[i]];

        for (int d = 0; d < job->devices; d++) {
            int device = job->on[d];

            residents[device]++;
            if (job->movable)
                continue;
            run->device_pool[device] = POOL_NONE;
            run->device_until[device] = fmax(
                run->device_until[device], job->estimates[snapshot->devices[device].type].seconds);
        }
    }
}

/* Groups of devices. Every set of devices that a job allows, prefers or may use now contains all of
 * a group or none of it. */
struct groups {
    uint64_t devices[POLICY_DEVICES_MAX][POLICY_MASK_WORDS];
    int count;
    uint64_t known[16][POLICY_MASK_WORDS]; /* the latest sets: many jobs have equal sets */
    size_t sets;
};

static bool is_known(const struct groups *groups, const uint64_t *set)
{
    enum { KNOWN = sizeof groups->known / sizeof groups->known[0] };

    for (size_t i = 0; i < groups->sets && i < KNOWN; i++)
        if (memcmp(groups->known[i], set, sizeof groups->known[i]) == 0)
            return true;
    return false;
}

static void groups_divide(struct groups *groups, const uint64_t *set)
{
    enum { KNOWN = sizeof groups->known / sizeof groups->known[0] };
    int count = groups->count;

    if (!set || is_known(groups, set))
        return;
    memcpy(groups->known[groups->sets++ % KNOWN], set, sizeof groups->known[0]);
    for (int g = 0; g < count; g++) {
        uint64_t in = 0, out = 0, *split = groups->devices[groups->count];

        for (int w = 0; w < POLICY_MASK_WORDS; w++) {
            in |= groups->devices[g][w] & set[w];
            out |= groups->devices[g][w] & ~set[w];
        }
        if (!in || !out)
            continue;
        for (int w = 0; w < POLICY_MASK_WORDS; w++) {
            split[w] = groups->devices[g][w] & ~set[w];
            groups->devices[g][w] &= set[w];
        }
        groups->count++;
    }
}

/* Divides the groups by the devices that leave the yielding job enough memory. */
static void groups_divide_for(struct groups *groups, const struct policy_run *run,
                              const struct policy_job *job)
{
    uint64_t usable[POLICY_MASK_WORDS] = {0};

    for (size_t d = 0; d < run->snapshot->device_count; d++)
        if (job_may_use(run, job, (int)d))
            policy_mask_add(usable, (int)d);
    groups_divide(groups, usable);
}

/* Fills the group of each device; 0 for all if no job has such a set. */
static void group_devices(const struct policy_run *run, int *group)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    struct groups groups;

    memset(group, 0, snapshot->device_count * sizeof *group);
    groups.count = 0;
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];

        if (!job->allowed && !job->preferred && !job->yields)
            continue;
        if (groups.count == 0) {
            memset(&groups, 0, sizeof groups);
            groups.count = 1;
            for (size_t d = 0; d < snapshot->device_count; d++)
                policy_mask_add(groups.devices[0], (int)d);
        }
        groups_divide(&groups, job->allowed);
        groups_divide(&groups, job->preferred);
        if (job->yields)
            groups_divide_for(&groups, run, job);
    }
    for (int g = 1; g < groups.count; g++)
        for (size_t d = 0; d < snapshot->device_count; d++)
            if (policy_mask_has(groups.devices[g], (int)d))
                group[d] = g;
}

static bool same_pool(const struct pool *a, const struct pool *b)
{
    return a->type == b->type && a->limit == b->limit && !a->closed && !b->closed && !a->alone &&
           !b->alone;
}

void pools_make(struct policy_run *run)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    int residents[POLICY_DEVICES_MAX], group[POLICY_DEVICES_MAX];

    pin_devices(run, residents);
    group_devices(run, group);
    for (size_t i = 0; i < snapshot->device_count; i++) {
        const struct policy_device *device = &snapshot->devices[i];
        struct pool pool = {.type = device->type,
                            .device = (int)i,
                            .limit = run->limit_now[i],
                            .closed = device->draining || run->above_watermark[i],
                            .alone = residents[i] > 1 || ledger_is_shared(snapshot, (int)i),
                            .base = POOL_NONE,
                            .until = INFINITY};
        int at = 0;

        if (run->device_pool[i] == POOL_NONE)
            continue;
        while (at < run->pool_count &&
               !(same_pool(&run->pools[at], &pool) && group[run->pools[at].device] == group[i]))
            at++;
        if (at == run->pool_count)
            run->pools[run->pool_count++] = pool;
        run->pools[at].free++;
        run->device_pool[i] = at;
    }
}

bool pools_have_free(const struct policy_run *run)
{
    for (int p = 0; p < run->pool_count; p++)
        if (run->pools[p].free > 0)
            return true;
    return false;
}

/* ---- options --------------------------------------------------------------------------------- */

static void option_add_part(struct solve_option *option, int pool, int count)
{
    for (int p = 0; p < option->part_count; p++) {
        if (option->parts[p].pool == pool) {
            option->parts[p].count = (uint16_t)(option->parts[p].count + count);
            return;
        }
    }
    option->parts[option->part_count++] = (struct solve_part){(uint16_t)pool, (uint16_t)count};
}

/* Makes the option to stay, with the pools of the devices that the running job holds; false: it
 * cannot stay. */
static bool staying_option(const struct policy_run *run, const struct policy_job *job,
                           struct solve_option *option)
{
    int type = job->on ? run->snapshot->devices[job->on[0]].type : 0;

    *option = (struct solve_option){.type = (int16_t)type, .stays = true};
    for (int d = 0; job->on && d < job->devices; d++) {
        int pool = run->device_pool[job->on[d]];

        if (pool == POOL_NONE || job->estimates[type].memory > run->pools[pool].limit ||
            !job_allows(job, job->on[d]))
            return false;
        if (option->part_count == SOLVE_PARTS_MAX) {
            bool known = false;

            for (int p = 0; p < option->part_count; p++)
                known |= option->parts[p].pool == pool;
            if (!known)
                return false;
        }
        option_add_part(option, pool, 1);
    }
    return job->on && isfinite(job->estimates[type].seconds);
}

static bool same_parts(const struct solve_option *a, const struct solve_option *b)
{
    if (a->part_count != b->part_count)
        return false;
    for (int p = 0; p < a->part_count; p++) {
        bool found = false;

        for (int q = 0; q < b->part_count; q++)
            found |= a->parts[p].pool == b->parts[q].pool && a->parts[p].count == b->parts[q].count;
        if (!found)
            return false;
    }
    return true;
}

static bool option_fits(const struct policy_run *run, const struct solve_option *option)
{
    for (int p = 0; p < option->part_count; p++)
        if (run->pools[option->parts[p].pool].free < option->parts[p].count)
            return false;
    return true;
}

/* The state while one job's options are listed. */
struct listing {
    const struct policy_run *run;
    const struct policy_job *job;
    struct solve_option *options, staying;
    bool may_stay;
    double value[2]; /* of a start on, or move to, the present type; [1]: on preferred devices */
    double staying_value; /* on the type where it runs */
    int count, of_type;
};

static bool option_is_preferred(const struct listing *listing, const struct solve_option *option)
{
    for (int p = 0; p < option->part_count; p++)
        if (!job_prefers(listing->job, listing->run->pools[option->parts[p].pool].device))
            return false;
    return true;
}

static void list_option(struct listing *listing, const struct solve_option *option)
{
    if (!option_fits(listing->run, option))
        return;
    listing->options[listing->count] = *option;
    listing->options[listing->count].value =
        option->stays ? listing->staying_value
                      : listing->value[option_is_preferred(listing, option)];
    if (listing->options[listing->count].value > 0)
        listing->count++;
}

/* Whether the job may take devices of the pool. On reserved devices it must end before the
 * reservation begins. */
static bool pool_suits(const struct listing *listing, int index, int type)
{
    const struct pool *pool = &listing->run->pools[index];
    const struct policy_estimate *estimate = &listing->job->estimates[type];
    double restart = listing->job->resumes || listing->job->on ? listing->job->restart_seconds : 0;

    return pool->type == type && pool->free > 0 && !pool->closed &&
           job_may_use(listing->run, listing->job, pool->device) &&
           estimate->memory <= pool->limit && estimate->seconds + restart <= pool->until;
}

/* Completes the option with `wanted` more devices from pool `first` on, in every combination. */
static void list_combinations(struct listing *listing, struct solve_option *option, int first,
                              int wanted)
{
    for (int p = first; p < listing->run->pool_count; p++) {
        int most = listing->run->pools[p].free < wanted ? listing->run->pools[p].free : wanted;

        if (!pool_suits(listing, p, option->type))
            continue;
        for (int count = most; count > 0; count--) {
            int parts = option->part_count;

            if (parts == SOLVE_PARTS_MAX || listing->of_type == GANG_OPTIONS_MAX)
                return;
            option_add_part(option, p, count);
            if (count < wanted) {
                list_combinations(listing, option, p + 1, wanted - count);
            } else if (!listing->may_stay || !same_parts(option, &listing->staying)) {
                list_option(listing, option);
                listing->of_type += option->parts[0].count < listing->job->devices;
            }
            option->part_count = (int16_t)parts;
        }
    }
}

/* Lists staying on devices that were reserved out of the job's own pool. It may stay there if it
 * ends before the reservation begins. */
static void list_reserved_stay(struct listing *listing)
{
    struct solve_option option = listing->staying;

    if (option.part_count != 1)
        return;
    for (int p = 0; p < listing->run->pool_count; p++) {
        if (listing->run->pools[p].base != listing->staying.parts[0].pool ||
            !pool_suits(listing, p, option.type))
            continue;
        option.parts[0].pool = (uint16_t)p;
        list_option(listing, &option);
    }
}

/* One option to stay; one to stay on reserved devices of each pool; each pool alone; and for each
 * type the combinations of several pools. */
size_t job_options_max(const struct policy_snapshot *snapshot)
{
    return 1 + snapshot->device_count + (size_t)pools_max(snapshot) +
           (size_t)GANG_OPTIONS_MAX * (size_t)snapshot->type_count;
}

int job_options(const struct policy_run *run, size_t index, struct solve_option *options)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    const struct policy_job *job = &snapshot->jobs[index];
    struct listing listing = {.run = run, .job = job, .options = options};

    listing.may_stay = staying_option(run, job, &listing.staying);
    if (listing.may_stay) {
        listing.staying_value =
            value_on_type(snapshot, job, &run->values[index], listing.staying.type,
                          option_is_preferred(&listing, &listing.staying), true);
        list_option(&listing, &listing.staying);
        list_reserved_stay(&listing);
    }
    for (int type = 0; type < snapshot->type_count; type++) {
        struct solve_option option = {.type = (int16_t)type};

        for (int preferred = 0; preferred < 2; preferred++)
            listing.value[preferred] =
                value_on_type(snapshot, job, &run->values[index], type, preferred, false);
        listing.of_type = 0;
        if (listing.value[1] > 0)
            list_combinations(&listing, &option, 0, job->devices);
    }
    return listing.count;
}

void place_job(struct policy_run *run, size_t index, const struct solve_option *option)
{
    const struct policy_job *job = &run->snapshot->jobs[index];

    run->choices[index].state = JOB_PLACED;
    run->choices[index].option = *option;
    run->placed[run->placed_count++] = index;
    for (int p = 0; p < option->part_count; p++)
        run->pools[option->parts[p].pool].free -= option->parts[p].count;
    if (job->user != POLICY_NONE)
        run->user_devices[job->user] += job->devices;
}

bool user_is_at_limit(const struct policy_run *run, const struct policy_job *job)
{
    const struct policy_user *user;

    if (job->user == POLICY_NONE)
        return false;
    user = &run->snapshot->users[job->user];
    return user->device_max > 0 && job->devices > user->device_max - run->user_devices[job->user];
}
