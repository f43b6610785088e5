/* test_policy_wild.c: a decision never fails, whatever the snapshot is, and writes only into its
 * workspace. `test_policy_wild COUNT [FIRST]` decides that many random snapshots (make
 * check-decisions: a million). */
#include "scheduler/policy.h"
#include "tests/support/wild_snapshot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t snapshot_count = 4000, first_snapshot;

/* Memory that ends before a page that cannot be accessed, and begins behind marks. */
struct fence {
    char *memory;
    size_t size; /* without the last page */
};

enum { MARK_BYTES = 64, MARK = 0x5A };

static void fence_free(struct fence *fence)
{
    if (fence->memory)
        munmap(fence->memory, fence->size + (size_t)sysconf(_SC_PAGESIZE));
}

/* `size` bytes right before the fence. They still hold what the previous decision left. */
static char *fence_take(struct fence *fence, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (fence->size < size + MARK_BYTES) {
        fence_free(fence);
        fence->size = (2 * size + MARK_BYTES + page - 1) / page * page;
        fence->memory = mmap(NULL, fence->size + page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(fence->memory != MAP_FAILED);
        assert_int_equal(mprotect(fence->memory + fence->size, page, PROT_NONE), 0);
    }
    memset(fence->memory + fence->size - size - MARK_BYTES, MARK, MARK_BYTES);
    return fence->memory + fence->size - size;
}

static void check_marks(const char *workspace)
{
    for (int i = 1; i <= MARK_BYTES; i++)
        assert_int_equal(workspace[-i], MARK);
}

/* ---- what must hold of any decision ---------------------------------------------------------- */

static bool is_fixed(const struct policy_job *job)
{
    return job->on && !job->movable;
}

static bool is_on(const struct policy_job *job, int device)
{
    for (int d = 0; job->on && d < job->devices; d++)
        if (job->on[d] == device)
            return true;
    return false;
}

/* Checks that a job has as many devices as it needs, each once and of one type. If it can be moved,
 * they are allowed devices. */
static void check_place(const struct policy_snapshot *snapshot, const struct policy_job *job,
                        const struct policy_placement *placement)
{
    assert_true(job->devices <= (int)snapshot->device_count);
    for (int d = 0; d < job->devices; d++) {
        int index = placement->devices[d];
        const struct policy_device *device = &snapshot->devices[index];

        assert_true(index >= 0 && index < (int)snapshot->device_count);
        assert_true(d == 0 || index > placement->devices[d - 1]);
        assert_int_equal(device->type, placement->type);
        if (is_fixed(job))
            continue;
        assert_false(device->lost);
        assert_true(!device->draining || is_on(job, index));
        assert_true(!job->allowed || policy_mask_has(job->allowed, index));
        assert_true(!isinf(job->estimates[device->type].seconds) ||
                    job->estimates[device->type].seconds < 0);
    }
}

/* Checks the jobs of a device that could be elsewhere. They fit into its memory with all others,
 * except for a running one of unknown memory. They are alone unless all of them share. */
static void check_device(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision, int index)
{
    const struct policy_device *device = &snapshot->devices[index];
    long double memory = device->memory_outside;
    int jobs = 0, fixed = 0, booked = 0;
    bool share = true;

    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        const struct policy_placement *placement = &decision->placements[i];

        for (int d = 0; placement->devices && d < job->devices; d++) {
            uint64_t need = job->estimates[device->type].memory;

            if (placement->devices[d] != index)
                continue;
            jobs++;
            fixed += is_fixed(job);
            booked += !is_fixed(job) && !(is_on(job, index) && need == 0);
            memory += need;
            share &= job->shares && job->devices == 1;
        }
    }
    if (jobs == fixed)
        return;
    assert_true(jobs == 1 || share);
    if (booked > 0 && device->high_watermark_ratio > 0 && device->high_watermark_ratio < 1e6 &&
        device->memory_capacity > 0 && device->memory_capacity < UINT64_MAX)
        assert_true(memory <=
                    (long double)(device->high_watermark_ratio * (double)device->memory_capacity));
}

static void check_words(const struct policy_snapshot *snapshot,
                        const struct policy_decision *decision, size_t index)
{
    struct policy_candidate candidates[POLICY_DEVICES_MAX];
    char text[POLICY_REASON_MAX];

    assert_int_equal(policy_candidates(snapshot, decision, index, candidates, POLICY_DEVICES_MAX),
                     snapshot->device_count);
    for (size_t d = 0; d < snapshot->device_count; d++)
        assert_non_null(policy_candidate_verdict_to_string(candidates[d].verdict));
    assert_true(strlen(policy_explain(snapshot, decision, index, text, sizeof text)) > 5);
    assert_non_null(policy_verdict_to_string(decision->placements[index].verdict));
}

static void check_decision(const struct policy_snapshot *snapshot,
                           const struct policy_decision *decision)
{
    assert_true(isfinite(decision->value) && decision->value >= 0);
    assert_true(decision->next_seconds > 0);
    for (size_t i = 0; i < snapshot->job_count; i++) {
        const struct policy_job *job = &snapshot->jobs[i];
        const struct policy_placement *placement = &decision->placements[i];

        if (is_fixed(job))
            assert_memory_equal(placement->devices, job->on, (size_t)job->devices * sizeof(int));
        if (placement->devices)
            check_place(snapshot, job, placement);
        if (i < 40)
            check_words(snapshot, decision, i);
    }
    for (size_t d = 0; d < snapshot->device_count; d++)
        check_device(snapshot, decision, (int)d);
}

static void decide_and_check(struct fence *fence, const struct policy_snapshot *snapshot)
{
    struct policy_decision decision;
    size_t size = policy_workspace_size(snapshot);
    char *workspace = fence_take(fence, size);

    assert_int_equal(policy_decide(snapshot, workspace, size, &decision), 0);
    check_marks(workspace);
    check_decision(snapshot, &decision);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void any_snapshot_is_decided(void **state)
{
    struct fence fence = {0};

    (void)state;
    for (uint64_t seed = first_snapshot; seed < first_snapshot + snapshot_count; seed++) {
        struct wild_snapshot wild;

        wild_snapshot_make(&wild, seed);
        decide_and_check(&fence, &wild.snapshot);
        wild_snapshot_free(&wild);
    }
    fence_free(&fence);
}

/* Gangs on devices of many types, some of which have less free memory. Each option is rare, so that
 * the dynamic programme has many states. */
static void gangs_on_devices_that_differ(void **state)
{
    enum { DEVICES = 24, TYPES = 6, JOBS = 40 };
    static struct policy_device devices[DEVICES];
    static struct policy_estimate estimates[JOBS][TYPES];
    static struct policy_job jobs[JOBS];
    static const char *const names[TYPES] = {"a", "b", "c", "d", "e", "f"};
    struct fence fence = {0};

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct policy_snapshot snapshot = {.type_count = TYPES,
                                           .type_names = names,
                                           .devices = devices,
                                           .device_count = DEVICES,
                                           .jobs = jobs,
                                           .job_count = JOBS,
                                           .settings = policy_settings_default()};

        for (int d = 0; d < DEVICES; d++)
            devices[d] =
                (struct policy_device){.name = names[d % TYPES],
                                       .type = d % TYPES,
                                       .memory_capacity = 1000,
                                       .memory_outside = (uint64_t)(d < round % 3 ? 50 : 0),
                                       .high_watermark_ratio = 0.9};
        for (int i = 0; i < JOBS; i++) {
            jobs[i] = (struct policy_job){.id = i + 1,
                                          .user = POLICY_NONE,
                                          .devices = 1 + (i + round) % 4,
                                          .length_known = true,
                                          .movable = true,
                                          .estimates = estimates[i]};
            for (int type = 0; type < TYPES; type++)
                estimates[i][type] = (struct policy_estimate){
                    .seconds = type == (i + round) % TYPES || type == (i * 5 + 1) % TYPES
                                   ? 100 + 10 * i + type
                                   : INFINITY,
                    .memory = 100};
        }
        decide_and_check(&fence, &snapshot);
    }
    fence_free(&fence);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_snapshot_is_decided),
        cmocka_unit_test(gangs_on_devices_that_differ),
    };
    struct timespec begin, end;
    int failed;

    if (argc > 1)
        snapshot_count = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_snapshot = strtoull(argv[2], NULL, 10);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    printf("%llu snapshots from %llu decided, %.0f s of processor time\n",
           (unsigned long long)snapshot_count, (unsigned long long)first_snapshot,
           (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    return failed;
}
