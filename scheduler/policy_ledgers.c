/* policy_ledgers.c: devices that share a memory, as an integrated GPU and the CPU do, or that are
 * two ways to one GPU. The steps before know each device's own limits alone. So this step looks at
 * what they have placed on the devices of each ledger, and takes the places back that do not fit:
 * those whose loss costs the least value, the lowest priorities first. The next step, which lets
 * jobs share devices, keeps to the ledgers itself and gives what is left to who waits. */
#include "scheduler/policy_internal.h"

#include <limits.h>
#include <math.h>

/* Up to this number of movable jobs on the devices of a ledger every subset is tried. */
enum { EXACT_MAX = 10 };

int ledger_of(const struct policy_snapshot *snapshot, int device)
{
    return snapshot->ledgers ? snapshot->ledgers[device] : device;
}

bool ledger_is_shared(const struct policy_snapshot *snapshot, int device)
{
    int devices = 0;

    for (size_t d = 0; snapshot->ledgers && d < snapshot->device_count; d++)
        devices += snapshot->ledgers[d] == snapshot->ledgers[device];
    return devices > 1;
}

bool device_is_same_hardware(const struct policy_snapshot *snapshot, int device, int other)
{
    int ledger = ledger_of(snapshot, device);

    return device == other || (ledger == ledger_of(snapshot, other) &&
                               (device == ledger || snapshot->devices[device].same_hardware) &&
                               (other == ledger || snapshot->devices[other].same_hardware));
}

/* What a job, or several, take of a ledger. */
struct part {
    uint64_t memory;
    double utilisation; /* of the hardware that the devices are ways to */
    int jobs;           /* on that hardware */
    bool shares;        /* all of them share */
};

struct member {
    struct part part;
    size_t job;
    double value;
    int rank; /* starving jobs first, then by priority */
    bool stays;
};

struct ledger {
    const struct policy_run *run;
    int device;        /* whose ledger it is */
    struct part fixed; /* jobs that cannot be moved */
    struct member members[POLICY_DEVICES_MAX];
    int count;
};

static bool is_on_hardware(const struct ledger *ledger, int device)
{
    return device_is_same_hardware(ledger->run->snapshot, ledger->device, device);
}

static void part_add(struct part *part, const struct part *more)
{
    part->memory = memory_sum(part->memory, more->memory);
    part->utilisation += more->utilisation;
    part->shares = part->shares && (more->jobs == 0 || more->shares);
    part->jobs += more->jobs;
}

/* Adds what the job takes of the ledger by being on the device. */
static void part_add_device(const struct ledger *ledger, struct part *part,
                            const struct policy_job *job, int device)
{
    const struct policy_snapshot *snapshot = ledger->run->snapshot;
    const struct policy_estimate *estimate = &job->estimates[snapshot->devices[device].type];
    bool on_hardware = is_on_hardware(ledger, device);
    struct part more = {.memory = estimate->memory,
                        .utilisation = on_hardware ? job_utilisation(estimate) : 0,
                        .jobs = on_hardware,
                        .shares = job->shares && job->devices == 1};

    if (ledger_of(snapshot, device) == ledger->device)
        part_add(part, &more);
}

/* Pools of devices with a shared ledger have one device each. */
static int device_of_pool(const struct policy_run *run, int pool)
{
    return run->pools[run->pools[pool].base == POOL_NONE ? pool : run->pools[pool].base].device;
}

static void add_member(struct ledger *ledger, size_t index)
{
    const struct policy_run *run = ledger->run;
    const struct policy_job *job = &run->snapshot->jobs[index];
    const struct solve_option *option = &run->choices[index].option;
    struct member member = {.part.shares = true,
                            .job = index,
                            .value = option->value,
                            .rank = run->placements[index].starving ? INT_MAX : job->priority,
                            .stays = option->stays};
    bool concerned = false;

    for (int p = 0; p < option->part_count; p++) {
        int device = device_of_pool(run, option->parts[p].pool);

        concerned |= ledger_of(run->snapshot, device) == ledger->device;
        part_add_device(ledger, &member.part, job, device);
    }
    if (concerned)
        ledger->members[ledger->count++] = member;
}

static void ledger_fill(struct ledger *ledger, const struct policy_run *run, int device)
{
    const struct policy_snapshot *snapshot = run->snapshot;

    ledger->run = run;
    ledger->device = device;
    ledger->fixed = (struct part){.shares = true};
    ledger->count = 0;
    for (size_t i = 0; i < run->running_count; i++) {
        const struct policy_job *job = &snapshot->jobs[run->running[i]];

        for (int d = 0; !job->movable && d < job->devices; d++)
            part_add_device(ledger, &ledger->fixed, job, job->on[d]);
    }
    for (size_t k = 0; k < run->placed_count && ledger->count < POLICY_DEVICES_MAX; k++)
        add_member(ledger, run->placed[k]);
}

static bool hardware_takes(const struct ledger *ledger, const struct part *all, bool all_stay)
{
    const struct policy_snapshot *snapshot = ledger->run->snapshot;
    const struct policy_device *device = &snapshot->devices[ledger->device];

    return all->jobs < 2 ||
           (all->shares && (device->jobs_max <= 0 || all->jobs <= device->jobs_max) &&
            utilisation_allows(snapshot, device, all->utilisation, all_stay));
}

/* Whether the members with keeps[] set may be on their devices at the same time. */
static bool ledger_allows(const struct ledger *ledger, const bool *keeps)
{
    const struct policy_run *run = ledger->run;
    const struct policy_device *device = &run->snapshot->devices[ledger->device];
    struct part all = ledger->fixed;
    bool all_stay = true;
    uint64_t wanted = 0;
    int jobs = 0;

    for (int m = 0; m < ledger->count; m++) {
        if (!keeps[m])
            continue;
        part_add(&all, &ledger->members[m].part);
        wanted = memory_sum(wanted, ledger->members[m].part.memory);
        all_stay &= ledger->members[m].stays;
        jobs += ledger->members[m].part.jobs;
    }
    if ((wanted > 0 && all.memory > run->limit_now[ledger->device]) ||
        (jobs > 0 && !hardware_takes(ledger, &all, all_stay)))
        return false;
    for (int m = 0; m < ledger->count; m++)
        if (keeps[m] && !ledger->members[m].stays && all.memory < UINT64_MAX &&
            device_above_watermark(device, all.memory - ledger->members[m].part.memory))
            return false;
    return true;
}

/* Whether the first set is worth more than the second: the highest rank in which the sums of their
 * values differ decides. */
static bool is_worth_more(const struct ledger *ledger, const bool *first, const bool *second)
{
    long below = (long)INT_MAX + 1;

    while (true) {
        double sums[2] = {0};
        long rank = LONG_MIN;

        for (int m = 0; m < ledger->count; m++)
            if (ledger->members[m].rank < below && ledger->members[m].rank > rank)
                rank = ledger->members[m].rank;
        if (rank == LONG_MIN)
            return false;
        for (int m = 0; m < ledger->count; m++) {
            sums[0] += ledger->members[m].rank == rank && first[m] ? ledger->members[m].value : 0;
            sums[1] += ledger->members[m].rank == rank && second[m] ? ledger->members[m].value : 0;
        }
        if (fabs(sums[0] - sums[1]) > 1e-9 * fmax(sums[0], sums[1]))
            return sums[0] > sums[1];
        below = rank;
    }
}

static void choose_exactly(const struct ledger *ledger, bool *keeps)
{
    for (int m = 0; m < ledger->count; m++)
        keeps[m] = false;
    for (unsigned set = 1; set < 1u << ledger->count; set++) {
        bool these[EXACT_MAX];

        for (int m = 0; m < ledger->count; m++)
            these[m] = set >> m & 1;
        if (ledger_allows(ledger, these) && is_worth_more(ledger, these, keeps))
            for (int m = 0; m < ledger->count; m++)
                keeps[m] = these[m];
    }
}

/* Adds one member after the other, the highest ranks first and, of these, the most value for each
 * byte. */
static void choose_greedily(const struct ledger *ledger, bool *keeps)
{
    bool seen[POLICY_DEVICES_MAX] = {false};

    for (int m = 0; m < ledger->count; m++)
        keeps[m] = false;
    for (int round = 0; round < ledger->count; round++) {
        double best_density = -1;
        int best = 0, best_rank = INT_MIN;

        for (int m = 0; m < ledger->count; m++) {
            const struct member *member = &ledger->members[m];
            double density = member->value / (1 + (double)member->part.memory);

            if (seen[m] || member->rank < best_rank ||
                (member->rank == best_rank && density <= best_density))
                continue;
            best = m;
            best_rank = member->rank;
            best_density = density;
        }
        seen[best] = keeps[best] = true;
        keeps[best] = ledger_allows(ledger, keeps);
    }
}

static void take_back(struct policy_run *run, size_t index)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    const struct solve_option *option = &run->choices[index].option;
    size_t kept = 0;

    for (int p = 0; p < option->part_count; p++)
        run->pools[option->parts[p].pool].free += option->parts[p].count;
    if (job->user != POLICY_NONE)
        run->user_devices[job->user] -= job->devices;
    for (size_t k = 0; k < run->placed_count; k++)
        if (run->placed[k] != index)
            run->placed[kept++] = run->placed[k];
    run->placed_count = kept;
    run->choices[index].state = JOB_UNDECIDED;
    run->exact = false;
}

void ledgers_keep(struct policy_run *run)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    bool keeps[POLICY_DEVICES_MAX];
    struct ledger ledger;

    for (int d = 0; snapshot->ledgers && d < (int)snapshot->device_count; d++) {
        if (ledger_of(snapshot, d) != d || !ledger_is_shared(snapshot, d))
            continue;
        ledger_fill(&ledger, run, d);
        for (int m = 0; m < ledger.count; m++)
            keeps[m] = true;
        if (ledger_allows(&ledger, keeps))
            continue;
        if (ledger.count <= EXACT_MAX)
            choose_exactly(&ledger, keeps);
        else
            choose_greedily(&ledger, keeps);
        for (int m = 0; m < ledger.count; m++)
            if (!keeps[m])
                take_back(run, ledger.members[m].job);
    }
}
