/* policy.c: see policy.h. Runs the steps of one decision and derives the verdicts. */
#include "scheduler/policy.h"

#include "scheduler/policy_internal.h"
#include "scheduler/share.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* A new decision is made when shares may have changed by this part of `rest`, but not within a
 * minute. */
#define TURN_SHARE 0.05
#define TURN_SECONDS 60.0

static const char *const policy_verdict_names[] = {
    [POLICY_STAY] = "stay",
    [POLICY_START] = "start",
    [POLICY_MOVE] = "move",
    [POLICY_PREEMPT] = "preempt",
    [POLICY_WAIT_DEVICES] = "wait_devices",
    [POLICY_WAIT_MEMORY] = "wait_memory",
    [POLICY_WAIT_DRAINING] = "wait_draining",
    [POLICY_WAIT_RESERVED] = "wait_reserved",
    [POLICY_WAIT_USER_LIMIT] = "wait_user_limit",
    [POLICY_WAIT_RESERVATION] = "wait_reservation",
    [POLICY_IMPOSSIBLE] = "impossible",
};

DEFINE_STRING_TABLE(policy_verdict, enum policy_verdict, policy_verdict_names)

struct policy_settings policy_settings_default(void)
{
    return (struct policy_settings){.congestion = 1,
                                    .age_exponent = 0.1,
                                    .share_exponent = 0.5,
                                    .hysteresis = 4,
                                    .optimism = 1.5,
                                    .starvation_factor = 10,
                                    .starvation_seconds = 3600,
                                    .utilisation_limit = 1.3};
}

/* ---- the snapshot ---------------------------------------------------------------------------- */

static bool job_is_valid(const struct policy_snapshot *snapshot, const struct policy_job *job)
{
    if (job->devices < 1 || job->alike < 0 || !job->estimates || job->user < POLICY_NONE ||
        job->user >= (int)snapshot->user_count)
        return false;
    for (int d = 0; job->on && d < job->devices; d++) {
        if (job->on[d] < 0 || job->on[d] >= (int)snapshot->device_count ||
            snapshot->devices[job->on[d]].type != snapshot->devices[job->on[0]].type ||
            (d > 0 && job->on[d] <= job->on[d - 1]))
            return false;
    }
    return true;
}

static bool ledger_is_valid(const struct policy_snapshot *snapshot, size_t device)
{
    int ledger = ledger_of(snapshot, (int)device);

    return ledger >= 0 && ledger < (int)snapshot->device_count &&
           ledger_of(snapshot, ledger) == ledger;
}

static bool devices_are_valid(const struct policy_snapshot *snapshot)
{
    if (snapshot->type_count < 0 || snapshot->type_count > POLICY_TYPES_MAX ||
        snapshot->device_count > POLICY_DEVICES_MAX)
        return false;
    for (size_t i = 0; i < snapshot->device_count; i++)
        if (snapshot->devices[i].type < 0 || snapshot->devices[i].type >= snapshot->type_count ||
            !ledger_is_valid(snapshot, i))
            return false;
    return true;
}

/* The longest list of devices that the job can get. It has as many as the job needs, or one if the
 * job shares. */
static size_t device_list_max(const struct policy_snapshot *snapshot, const struct policy_job *job)
{
    return (size_t)job->devices < snapshot->device_count ? (size_t)job->devices
                                                         : snapshot->device_count;
}

/* The result of a single pass over all jobs; a second pass would be slow, because a long queue does
 * not fit into the cache. */
struct survey {
    bool valid, usable; /* see numbers_are_usable() */
    bool yields;        /* a job yields */
    size_t lists;       /* the sum of device_list_max() over all jobs */
};

static struct survey survey_jobs(const struct policy_snapshot *snapshot)
{
    struct survey survey = {.valid = devices_are_valid(snapshot), .usable = true};

    for (size_t i = 0; i < snapshot->job_count && survey.valid; i++) {
        const struct policy_job *job = &snapshot->jobs[i];

        survey.valid = job_is_valid(snapshot, job);
        if (!survey.valid)
            break;
        survey.usable &= numbers_are_usable(job, snapshot->type_count);
        survey.yields |= job->yields;
        survey.lists += device_list_max(snapshot, job);
    }
    return survey;
}

static void know_devices(struct policy_run *run)
{
    for (size_t d = 0; d < run->snapshot->device_count; d++) {
        const struct policy_device *device = &run->snapshot->devices[d];

        const struct policy_device *ledger =
            &run->snapshot->devices[ledger_of(run->snapshot, (int)d)];

        run->limit_ever[d] = memory_least(device_limit(device, false), device_limit(ledger, false));
        run->limit_now[d] = memory_least(device_limit(device, true), device_limit(ledger, true));
        run->above_watermark[d] =
            device_above_watermark(device, 0) || device_above_watermark(ledger, 0);
    }
}

/* Counts the devices that could take the job. Fills which types have enough of them, and returns
 * the flags of `job_suits` that hold for at least one type. */
static unsigned find_suiting(const struct policy_run *run, const struct policy_job *job,
                             struct type_fit *fits)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    int ever[POLICY_TYPES_MAX] = {0}, open[POLICY_TYPES_MAX] = {0}, now[POLICY_TYPES_MAX] = {0};
    int preferred[POLICY_TYPES_MAX] = {0};
    unsigned suits = 0;

    for (size_t d = 0; d < snapshot->device_count; d++) {
        const struct policy_device *device = &snapshot->devices[d];
        int type = device->type;
        bool is_open = !device->draining;

        if (device->lost || job->estimates[type].memory > run->limit_ever[d] ||
            !job_allows(job, (int)d))
            continue;
        ever[type]++;
        preferred[type] += job_prefers(job, (int)d);
        open[type] += is_open;
        now[type] += is_open && job->estimates[type].memory <= run->limit_now[d] &&
                     !run->above_watermark[d] && job_may_use(run, job, (int)d);
    }
    for (int type = 0; type < snapshot->type_count; type++) {
        bool can_run = isfinite(job->estimates[type].seconds);

        fits[type] = (struct type_fit){.fits = can_run && ever[type] >= job->devices,
                                       .preferred = can_run && preferred[type] >= job->devices};
        if (fits[type].fits)
            suits |= SUITS_EVER;
        if (can_run && open[type] >= job->devices)
            suits |= SUITS_OPEN;
        if (can_run && now[type] >= job->devices)
            suits |= SUITS_NOW;
    }
    return suits;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static bool keeps_devices(const struct policy_job *job, const struct policy_placement *placement)
{
    for (int d = 0; d < job->devices; d++)
        if (job->on[d] != placement->devices[d])
            return false;
    return true;
}

/* The id of the job whose reservation holds devices that this job might use; 0: none. */
static int64_t reservation_in_the_way(const struct policy_run *run, const struct policy_job *job)
{
    for (int p = 0; p < run->pool_count; p++)
        if (run->pools[p].base != POOL_NONE && run->pools[p].free > 0 &&
            isfinite(job->estimates[run->pools[p].type].seconds) &&
            job_allows(job, run->pools[p].device) &&
            job->estimates[run->pools[p].type].memory <= run->pools[p].limit)
            return run->pools[p].owner;
    return 0;
}

static enum policy_verdict waiting_verdict(const struct policy_run *run, size_t index)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    struct policy_placement *placement = &run->placements[index];
    unsigned suits = run->choices[index].suits;

    if (!(suits & SUITS_EVER))
        return POLICY_IMPOSSIBLE;
    if (!(suits & SUITS_OPEN))
        return POLICY_WAIT_DRAINING;
    if (placement->verdict == POLICY_WAIT_USER_LIMIT || user_is_at_limit(run, job))
        return POLICY_WAIT_USER_LIMIT;
    if (!(suits & SUITS_NOW))
        return POLICY_WAIT_MEMORY;
    if (placement->verdict == POLICY_WAIT_RESERVATION)
        return POLICY_WAIT_RESERVATION;
    placement->blocked_by = reservation_in_the_way(run, job);
    return placement->blocked_by ? POLICY_WAIT_RESERVED : POLICY_WAIT_DEVICES;
}

static void set_verdict(struct policy_run *run, size_t index)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    struct policy_placement *placement = &run->placements[index];

    placement->best_seconds = run->values[index].best_seconds;
    placement->worth = run->values[index].base;
    if (!placement->devices) {
        enum policy_verdict waiting = waiting_verdict(run, index);

        placement->verdict = job->on ? POLICY_PREEMPT : waiting;
        placement->type = POLICY_NONE;
        placement->value = 0;
        return;
    }
    placement->seconds = job->estimates[placement->type].seconds;
    if (!job->on)
        placement->verdict = POLICY_START;
    else
        placement->verdict = keeps_devices(job, placement) ? POLICY_STAY : POLICY_MOVE;
    if (placement->verdict == POLICY_MOVE || (!job->on && job->resumes))
        placement->seconds += job->restart_seconds;
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* Takes the memory that lives until the decision's end, including its result. */
static struct policy_run *take_run(struct workspace *workspace,
                                   const struct policy_snapshot *snapshot, size_t lists)
{
    struct policy_run counted, *taken = workspace_take(workspace, 1, sizeof *taken);
    struct policy_run *run = taken ? taken : &counted;
    size_t jobs = snapshot->job_count, users = snapshot->user_count;
    size_t devices = snapshot->device_count;

    memset(run, 0, sizeof *run);
    run->placements = workspace_take(workspace, jobs, sizeof *run->placements);
    run->values = workspace_take(workspace, jobs, sizeof *run->values);
    run->choices = workspace_take(workspace, jobs, sizeof *run->choices);
    run->user_factors = workspace_take(workspace, users, sizeof *run->user_factors);
    run->user_devices = workspace_take(workspace, users, sizeof *run->user_devices);
    run->device_lists = workspace_take(workspace, lists, sizeof(int));
    run->loads = workspace_take(workspace, devices, sizeof *run->loads);
    run->placed = workspace_take(workspace, devices, sizeof *run->placed);
    run->limit_ever = workspace_take(workspace, devices, sizeof *run->limit_ever);
    run->limit_now = workspace_take(workspace, devices, sizeof *run->limit_now);
    run->above_watermark = workspace_take(workspace, devices, sizeof *run->above_watermark);
    run->held_now = workspace_take(workspace, devices, sizeof *run->held_now);
    run->pools = workspace_take(workspace, (size_t)pools_max(snapshot), sizeof *run->pools);
    run->device_pool = workspace_take(workspace, devices, sizeof *run->device_pool);
    run->device_until = workspace_take(workspace, devices, sizeof *run->device_until);
    run->running = workspace_take(workspace, jobs, sizeof *run->running);
    run->floors = workspace_take(
        workspace, value_first_count(snapshot) * (size_t)snapshot->type_count, sizeof *run->floors);
    if (snapshot->settings.makespan)
        run->shares =
            workspace_take(workspace, jobs * (size_t)snapshot->type_count, sizeof *run->shares);
    return taken;
}

/* The steps run one after the other, so they share the memory after that of take_run(). */
static size_t workspace_size(const struct policy_snapshot *snapshot, size_t lists)
{
    const size_t steps[] = {value_congestion_size(snapshot), starving_workspace_size(snapshot),
                            classes_workspace_size(snapshot), sharing_workspace_size(snapshot)};
    struct workspace counted = {0};
    size_t most = 0;

    take_run(&counted, snapshot, lists);
    numbers_take(&counted, snapshot);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        most = steps[i] > most ? steps[i] : most;
    return counted.taken + most;
}

size_t policy_workspace_size(const struct policy_snapshot *snapshot)
{
    size_t lists = 0;

    for (size_t i = 0; i < snapshot->job_count; i++)
        lists += device_list_max(snapshot, &snapshot->jobs[i]);
    return workspace_size(snapshot, lists);
}

static void run_begin(struct policy_run *run, const struct policy_snapshot *snapshot)
{
    size_t jobs = snapshot->job_count;

    run->snapshot = snapshot;
    run->exact = true;
    memset(run->placements, 0, jobs * sizeof *run->placements);
    memset(run->choices, 0, jobs * sizeof *run->choices);
    memset(run->user_devices, 0, snapshot->user_count * sizeof *run->user_devices);
    memset(run->held_now, 0, snapshot->device_count * sizeof *run->held_now);
}

/* The number of devices divided by the number that all jobs together want. */
static double room_for_all(const struct policy_run *run)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    double devices = 0, wanted = 0;

    for (size_t d = 0; d < snapshot->device_count; d++)
        devices += !snapshot->devices[d].lost;
    for (size_t i = 0; i < snapshot->job_count; i++)
        if (isfinite(run->values[i].best_seconds))
            wanted += snapshot->jobs[i].devices * (1 + (double)snapshot->jobs[i].alike);
    return devices / fmax(wanted, 1);
}

/* Turns the seconds in run->shares into shares, and these into values. */
static void value_by_shares(struct policy_run *run)
{
    const struct policy_snapshot *snapshot = run->snapshot;
    double room = room_for_all(run);

    run->rest = share_out(snapshot, run->shares);
    for (size_t i = 0; i < snapshot->job_count; i++) {
        run->values[i].shares = run->shares + i * (size_t)snapshot->type_count;
        run->values[i].room = room;
        run->values[i].part = fmax(run->values[i].best_seconds, 1e-9) / fmax(run->rest, 1e-9);
    }
}

static void value_jobs(struct policy_run *run)
{
    const struct policy_snapshot *snapshot = run->snapshot;

    know_devices(run);
    value_user_factors(snapshot, run->user_factors);
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        struct type_fit fits[POLICY_TYPES_MAX];

        run->choices[i].suits = find_suiting(run, job, fits);
        for (int type = 0; type < snapshot->type_count; type++)
            run->choices[i].types |= (unsigned)fits[type].fits << type;
        run->values[i] = value_of_job(snapshot, job, fits, run->user_factors);
        run->placements[i].verdict = POLICY_WAIT_DEVICES;
        for (int type = 0; run->shares && type < snapshot->type_count; type++)
            run->shares[i * (size_t)snapshot->type_count + (size_t)type] =
                fits[type].fits ? job->estimates[type].seconds : INFINITY;
        if (job->on)
            run->running[run->running_count++] = i;
        if (job->on && !job->movable) {
            run->choices[i].state = JOB_BLOCKED;
            if (job->user != POLICY_NONE)
                run->user_devices[job->user] += job->devices;
        }
    }
    if (snapshot->settings.makespan)
        value_by_shares(run);
    else if (snapshot->settings.congestion > 0)
        value_add_congestion(snapshot, run->values, run->workspace);
    value_put_first(snapshot, run->values, run->floors, run->workspace);
}

/* Adds a placed job to the loads of its devices. */
static void add_load(struct policy_run *run, size_t index)
{
    const struct policy_job *job = &run->snapshot->jobs[index];
    const struct policy_placement *placement = &run->placements[index];

    for (int d = 0; d < job->devices; d++) {
        struct policy_load *load = &run->loads[placement->devices[d]];

        if (load->jobs++ == 0) {
            load->job = job->id;
            load->shared = true;
        }
        load->memory = memory_sum(load->memory, job->estimates[placement->type].memory);
        load->utilisation += job_utilisation(&job->estimates[placement->type]);
        load->shared &= job->shares && job->devices == 1;
    }
}

/* Records for which job each free device is reserved. */
static void set_reservations(struct policy_run *run)
{
    for (size_t d = 0; d < run->snapshot->device_count; d++)
        for (int p = 0; p < run->pool_count; p++)
            if (run->pools[p].base != POOL_NONE && run->pools[p].base == run->device_pool[d] &&
                run->pools[p].free > 0 && run->loads[d].jobs == 0)
                run->loads[d].reserved_for = run->pools[p].owner;
}

/* Seconds until the job, if it waits, may become a starving one; INFINITY: time alone does not
 * change that. */
static double seconds_to_bound(const struct policy_run *run, size_t index)
{
    const struct policy_placement *placement = &run->placements[index];

    if (placement->devices || placement->verdict == POLICY_IMPOSSIBLE)
        return INFINITY;
    return seconds_to_starving(run, index);
}

/* For the makespan: seconds until a waiting job's share may exceed a running job's. In `rest`
 * seconds shares change by at most 1. */
static double seconds_to_next_turn(const struct policy_run *run)
{
    if (!run->shares || run->rest <= 0)
        return INFINITY;
    return fmax(run->rest * TURN_SHARE, TURN_SECONDS);
}

/* Derives verdicts, sums and the time of the next decision from the placements. It makes a single
 * pass, because a long queue does not fit into the cache. */
static void conclude(struct policy_run *run, struct policy_decision *decision)
{
    double next = seconds_to_next_turn(run);

    *decision = (struct policy_decision){
        .placements = run->placements, .loads = run->loads, .exact = run->exact};
    memset(run->loads, 0, run->snapshot->device_count * sizeof *run->loads);
    for (size_t i = 0; i < run->snapshot->job_count; i++) {
        double bound;

        set_verdict(run, i);
        decision->value += run->placements[i].value;
        if (run->placements[i].devices)
            add_load(run, i);
        decision->memory_is_awaited |= run->placements[i].verdict == POLICY_WAIT_MEMORY;
        bound = seconds_to_bound(run, i);
        if (bound < next)
            next = bound;
    }
    decision->next_seconds = next;
    set_reservations(run);
}

int policy_decide(const struct policy_snapshot *snapshot, void *workspace, size_t size,
                  struct policy_decision *decision)
{
    struct workspace memory = {.memory = workspace, .size = size};
    struct survey survey = survey_jobs(snapshot);
    struct policy_run *run;

    if (!survey.valid)
        return -EINVAL;
    if (size < workspace_size(snapshot, survey.lists))
        return -ENOBUFS;
    run = take_run(&memory, snapshot, survey.lists);
    snapshot = numbers_mend(numbers_take(&memory, snapshot), snapshot, survey.usable);
    run->workspace = memory;
    run_begin(run, snapshot);
    if (survey.yields)
        memory_of_running(snapshot, run->held_now);
    value_jobs(run);
    pools_make(run);
    place_starving(run);
    place_classes(run);
    ledgers_keep(run);
    place_on_devices(run);
    conclude(run, decision);
    return 0;
}
