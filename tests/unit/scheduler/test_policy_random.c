/* test_policy_random.c: all rules of scheduler/policy.h on random snapshots. */
#include "scheduler/policy.h"
#include "tests/support/random_snapshot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- all rules on random snapshots ----------------------------------------------------------- */

static bool is_running_unmovable(const struct policy_job *job)
{
    return job->on && !job->movable;
}

static bool is_running_on(const struct policy_job *job, int device)
{
    bool here = false;

    for (int o = 0; job->on && o < job->devices; o++)
        here |= job->on[o] == device;
    return here;
}

static double bound(const struct policy_snapshot *snapshot,
                    const struct policy_placement *placement)
{
    return fmax(snapshot->settings.starvation_seconds,
                snapshot->settings.starvation_factor * placement->best_seconds);
}

static bool has_starved(const struct policy_snapshot *snapshot,
                        const struct policy_placement *placement, const struct policy_job *job)
{
    return isfinite(placement->best_seconds) && job->waited >= bound(snapshot, placement);
}

/* Whether there are enough devices of the type for the job, in use or not. */
static bool suits(const struct policy_snapshot *snapshot, size_t index, int type)
{
    const struct policy_job *job = &snapshot->jobs[index];
    int count = 0;

    for (size_t d = 0; d < snapshot->device_count; d++) {
        const struct policy_device *device = &snapshot->devices[d];

        count += device->type == type && !device->lost &&
                 (!job->allowed || policy_mask_has(job->allowed, (int)d)) &&
                 (device->high_watermark_ratio == 0 || device->memory_capacity == 0 ||
                  (double)job->estimates[type].memory <=
                      device->high_watermark_ratio * (double)device->memory_capacity);
    }
    return isfinite(job->estimates[type].seconds) && count >= job->devices;
}

/* The type on which the job is predicted to end first. */
static int best_type(const struct policy_snapshot *snapshot, size_t index)
{
    double best = INFINITY;
    int found = POLICY_NONE;

    for (int type = 0; type < snapshot->type_count; type++) {
        const struct policy_estimate *estimate = &snapshot->jobs[index].estimates[type];
        double seconds =
            estimate->seconds * exp(-snapshot->settings.optimism * estimate->deviation);

        if (suits(snapshot, index, type) && seconds < best) {
            best = seconds;
            found = type;
        }
    }
    return found;
}

/* Checks devices: of one type, ascending, not lost; draining ones only for jobs that are there;
 * unmovable jobs stay. */
static void check_devices(const struct policy_snapshot *snapshot,
                          const struct policy_decision *decision)
{
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        const struct policy_placement *placement = &decision->placements[i];

        if (is_running_unmovable(job))
            assert_memory_equal(placement->devices, job->on, (size_t)job->devices * sizeof(int));
        for (int d = 0; placement->devices && d < job->devices; d++) {
            const struct policy_device *device = &snapshot->devices[placement->devices[d]];
            bool here = is_running_on(job, placement->devices[d]);

            assert_int_equal(device->type, placement->type);
            assert_true(is_running_unmovable(job) || !job->allowed ||
                        policy_mask_has(job->allowed, placement->devices[d]));
            assert_true(d == 0 || placement->devices[d] > placement->devices[d - 1]);
            assert_true(isfinite(job->estimates[device->type].seconds));
            assert_true(is_running_unmovable(job) || !device->lost);
            assert_true(here || !device->draining);
        }
    }
}

/* Checks that nothing is overbooked: the ledger, one job on a device unless all share, utilisation,
 * jobs_max. Jobs that cannot be moved were there before. */
static void check_booking(const struct policy_snapshot *snapshot,
                          const struct policy_decision *decision)
{
    for (size_t d = 0; d < snapshot->device_count; d++) {
        const struct policy_device *device = &snapshot->devices[d];
        double memory = (double)device->memory_outside, utilisation = 0;
        int jobs = 0, joined = 0;
        bool share = true, stays = false;

        for (size_t i = 0; i < snapshot->job_count; i++) {
            const struct policy_job *job = &snapshot->jobs[i];
            const struct policy_placement *placement = &decision->placements[i];

            for (int n = 0; placement->devices && n < job->devices; n++) {
                const struct policy_estimate *estimate = &job->estimates[device->type];

                if (placement->devices[n] != (int)d)
                    continue;
                jobs++;
                joined += !is_running_unmovable(job);
                stays |= is_running_on(job, (int)d);
                memory += (double)estimate->memory;
                utilisation += estimate->utilisation > 0 ? estimate->utilisation : 1;
                share &= job->shares && job->devices == 1;
            }
        }
        if (joined == 0)
            continue;
        assert_true(device->high_watermark_ratio == 0 || device->memory_capacity == 0 ||
                    memory <= device->high_watermark_ratio * (double)device->memory_capacity);
        assert_true(jobs == 1 || share);
        assert_true(jobs == 1 || utilisation <= snapshot->settings.utilisation_limit *
                                                        (stays ? POLICY_STAYING_UTILISATION : 1) +
                                                    1e-9);
        assert_true(jobs == 1 || device->jobs_max == 0 || jobs <= device->jobs_max);
    }
}

/* What the jobs of a shared ledger hold together, and how busy they keep the GPU to which several
 * of its devices are ways. */
struct together {
    double memory, utilisation;
    int joined, on_hardware, joined_there;
    bool share, stays;
};

static struct together look_at_ledger(const struct policy_snapshot *snapshot,
                                      const struct policy_decision *decision, int ledger)
{
    struct together all = {.memory = (double)snapshot->devices[ledger].memory_outside,
                           .share = true};

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        const struct policy_placement *placement = &decision->placements[i];

        for (int n = 0; placement->devices && n < job->devices; n++) {
            int at = placement->devices[n];
            const struct policy_estimate *estimate = &job->estimates[placement->type];

            if (snapshot->ledgers[at] != ledger)
                continue;
            all.memory += (double)estimate->memory;
            all.joined += !is_running_unmovable(job) && estimate->memory > 0;
            if (at != ledger && !snapshot->devices[at].same_hardware)
                continue;
            all.on_hardware++;
            all.joined_there += !is_running_unmovable(job);
            all.stays |= is_running_on(job, at);
            all.utilisation += estimate->utilisation > 0 ? estimate->utilisation : 1;
            all.share &= job->shares && job->devices == 1;
        }
    }
    return all;
}

static void check_ledgers(const struct policy_snapshot *snapshot,
                          const struct policy_decision *decision)
{
    for (int d = 0; snapshot->ledgers && d < (int)snapshot->device_count; d++) {
        const struct policy_device *device = &snapshot->devices[d];
        struct together all = look_at_ledger(snapshot, decision, d);

        if (snapshot->ledgers[d] != d)
            continue;
        assert_true(all.joined == 0 || device->high_watermark_ratio == 0 ||
                    device->memory_capacity == 0 ||
                    all.memory <= device->high_watermark_ratio * (double)device->memory_capacity);
        if (all.joined_there == 0 || all.on_hardware < 2)
            continue;
        assert_true(all.share);
        assert_true(device->jobs_max == 0 || all.on_hardware <= device->jobs_max);
        assert_true(all.utilisation <= snapshot->settings.utilisation_limit *
                                               (all.stays ? POLICY_STAYING_UTILISATION : 1) +
                                           1e-9);
    }
}

/* Checks that who yields goes only where the jobs that run leave enough memory. */
static void check_yielding(const struct policy_snapshot *snapshot,
                           const struct policy_decision *decision)
{
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_placement *placement = &decision->placements[i];

        if (!snapshot->jobs[i].yields || placement->starving || !placement->devices)
            continue;
        for (int n = 0; n < snapshot->jobs[i].devices; n++) {
            int at = placement->devices[n];
            const struct policy_device *device = &snapshot->devices[at];
            double memory = (double)device->memory_outside +
                            (double)snapshot->jobs[i].estimates[device->type].memory;

            for (size_t k = 0; k < snapshot->job_count; k++)
                if (is_running_on(&snapshot->jobs[k], at))
                    memory += (double)snapshot->jobs[k].estimates[device->type].memory;
            assert_true(device->high_watermark_ratio == 0 || device->memory_capacity == 0 ||
                        memory <= device->high_watermark_ratio * (double)device->memory_capacity);
        }
    }
}

static void check_limits(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision)
{
    int used[4] = {0}, unmovable[4] = {0};

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];

        if (job->user == POLICY_NONE || !decision->placements[i].devices)
            continue;
        used[job->user] += job->devices;
        unmovable[job->user] += is_running_unmovable(job) ? job->devices : 0;
    }
    for (int user = 0; user < 4; user++)
        assert_true(snapshot->users[user].device_max == 0 ||
                    used[user] <= snapshot->users[user].device_max ||
                    used[user] == unmovable[user]);
}

/* Whether all other work would keep the devices that suit the job busy for longer than the part of
 * its wait that would admit it although it does not fit. */
static bool has_no_room(const struct policy_snapshot *snapshot,
                        const struct policy_decision *decision, size_t index)
{
    double work = 0, devices = 0;

    for (int type = 0; type < snapshot->type_count; type++) {
        if (!suits(snapshot, index, type))
            continue;
        for (size_t d = 0; d < snapshot->device_count; d++)
            devices += snapshot->devices[d].type == type && !snapshot->devices[d].lost;
        for (size_t i = 0; i < snapshot->job_count; i++)
            if (isfinite(decision->placements[i].best_seconds) && best_type(snapshot, i) == type)
                work += fmax(decision->placements[i].best_seconds * snapshot->jobs[i].devices, 1) *
                        ((i != index) + snapshot->jobs[i].alike);
    }
    return work > POLICY_STARVING_ROOM * snapshot->jobs[index].waited * devices * (1 - 1e-9);
}

/* The shortest job that holds a reservation could not be placed even on all devices that neither
 * unmovable nor starving jobs hold. A starving job that does not fit into the part is passed over
 * only if there is no room for it, or if another one is beyond the part already. */
static void check_starvation(const struct policy_snapshot *snapshot,
                             const struct policy_decision *decision)
{
    size_t worst = SIZE_MAX;
    double taken = 0, part = POLICY_STARVING_PART * (double)snapshot->device_count;
    bool held[POLICY_DEVICES_MAX] = {false}, preempted = false;

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        const struct policy_placement *placement = &decision->placements[i];
        bool starved = has_starved(snapshot, placement, job);

        taken += placement->starving ? job->devices : 0;
        for (int d = 0; placement->devices && d < job->devices; d++)
            held[placement->devices[d]] |= placement->starving || is_running_unmovable(job);
        if (placement->verdict == POLICY_WAIT_RESERVATION &&
            (worst == SIZE_MAX ||
             placement->best_seconds < decision->placements[worst].best_seconds))
            worst = i;
        assert_true(starved || !placement->starving);
        preempted |= placement->starving && placement->verdict == POLICY_PREEMPT;
    }
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        const struct policy_placement *placement = &decision->placements[i];

        if (has_starved(snapshot, placement, job) && !placement->starving && !job->on &&
            placement->verdict == POLICY_WAIT_DEVICES)
            assert_true(taken + job->devices > part &&
                        (taken > part || has_no_room(snapshot, decision, i)));
    }
    if (preempted)
        return; /* it came first, and may hold a reservation */
    for (int type = 0; worst != SIZE_MAX && type < snapshot->type_count; type++) {
        const struct policy_job *job = &snapshot->jobs[worst];
        int suiting = 0;

        for (size_t d = 0; d < snapshot->device_count; d++) {
            const struct policy_device *device = &snapshot->devices[d];
            double capacity = (double)device->memory_capacity;

            suiting += device->type == type && !held[d] && !device->lost && !device->draining &&
                       (!job->allowed || policy_mask_has(job->allowed, (int)d)) &&
                       (device->low_watermark_ratio == 0 ||
                        (double)device->memory_outside <= device->low_watermark_ratio * capacity) &&
                       (device->high_watermark_ratio == 0 ||
                        (double)(device->memory_outside + job->estimates[type].memory) <=
                            device->high_watermark_ratio * capacity);
        }
        assert_true(!isfinite(job->estimates[type].seconds) || suiting < job->devices);
    }
}

/* What is said about each device agrees with the decision and its loads. */
static void check_all_candidates(const struct policy_snapshot *snapshot,
                                 const struct policy_decision *decision)
{
    struct policy_candidate candidates[POLICY_DEVICES_MAX];

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        const struct policy_placement *placement = &decision->placements[i];
        int chosen = 0;

        assert_int_equal(policy_candidates(snapshot, decision, i, candidates, POLICY_DEVICES_MAX),
                         snapshot->device_count);
        for (size_t d = 0; d < snapshot->device_count; d++) {
            const struct policy_device *device = &snapshot->devices[d];

            chosen += candidates[d].verdict == POLICY_CANDIDATE_CHOSEN;
            if (candidates[d].verdict == POLICY_CANDIDATE_CHOSEN && !is_running_unmovable(job))
                assert_true(candidates[d].memory <= candidates[d].memory_free);
            if (candidates[d].verdict == POLICY_CANDIDATE_NOT_ALLOWED)
                assert_false(policy_mask_has(job->allowed, (int)d));
            if (candidates[d].verdict == POLICY_CANDIDATE_EQUAL)
                assert_true(decision->loads[d].jobs == 0 && !device->lost);
        }
        assert_int_equal(chosen, placement->devices ? job->devices : 0);
    }
}

static void check_same_again(const struct policy_snapshot *snapshot,
                             const struct policy_decision *decision, size_t size)
{
    struct policy_decision again;
    char *workspace = malloc(size);

    memset(workspace, 0xA5, size);
    assert_int_equal(policy_decide(snapshot, workspace, size, &again), 0);
    assert_true(again.value == decision->value);
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_placement *a = &decision->placements[i], *b = &again.placements[i];

        assert_int_equal(a->verdict, b->verdict);
        assert_int_equal(!a->devices, !b->devices);
        if (a->devices)
            assert_memory_equal(a->devices, b->devices,
                                (size_t)snapshot->jobs[i].devices * sizeof(int));
    }
    free(workspace);
}

static void rules_hold_on_random_snapshots(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12000; seed++) {
        struct random_shape shape = {.types = 1 + (int)(seed % 3),
                                     .devices = 3 + (int)(seed % 7),
                                     .jobs = 1 + (int)(seed % 37),
                                     .gang_max = seed % 4 == 0 ? 1 : 3,
                                     .choosy = seed % 2,
                                     .unified = seed / 64 % 2};
        struct random_snapshot random;
        struct policy_decision decision;
        char text[POLICY_REASON_MAX];
        size_t size;
        char *workspace;

        random_snapshot_make(&random, &shape, seed);
        random.snapshot.settings.makespan = seed / 16 % 2;
        for (size_t i = 0; i < random.snapshot.job_count; i++)
            random.jobs[i].yields = seed / 32 % 2 && i % 3 == 0 && !random.jobs[i].on;
        size = policy_workspace_size(&random.snapshot);
        workspace = calloc(1, size);
        assert_int_equal(policy_decide(&random.snapshot, workspace, size, &decision), 0);
        check_devices(&random.snapshot, &decision);
        check_booking(&random.snapshot, &decision);
        check_yielding(&random.snapshot, &decision);
        check_limits(&random.snapshot, &decision);
        check_ledgers(&random.snapshot, &decision);
        if (!shape.unified) /* it counts devices by their own memory */
            check_starvation(&random.snapshot, &decision);
        check_all_candidates(&random.snapshot, &decision);
        check_same_again(&random.snapshot, &decision, size);
        for (size_t i = 0; i < random.snapshot.job_count; i++)
            assert_true(strlen(policy_explain(&random.snapshot, &decision, i, text, sizeof text)) >
                        10);
        free(workspace);
        random_snapshot_free(&random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_hold_on_random_snapshots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
