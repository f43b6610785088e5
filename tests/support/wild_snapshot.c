/* wild_snapshot.c: see wild_snapshot.h. */
#include "tests/support/wild_snapshot.h"

#include "base/philox.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[POLICY_TYPES_MAX] = {"t0",  "t1",  "t2",  "t3", "t4",  "t5",
                                                         "t6",  "t7",  "t8",  "t9", "t10", "t11",
                                                         "t12", "t13", "t14", "t15"};

/* The numbers drawn for a snapshot, and its common properties. */
struct draws {
    uint64_t seed, index;
    struct philox block;
    int left;        /* words of the block */
    int odd;         /* one of this many numbers is invalid or extreme; 0: all are valid */
    int memory_free; /* how many devices have the same memory free; 0: all */
    int gang_max;
    bool starving; /* most jobs have waited too long */
};

static uint32_t draw(struct draws *draws)
{
    if (draws->left == 0) {
        draws->block = philox_draw(draws->seed, philox_stream(PHILOX_TEST, 6), draws->index++);
        draws->left = 4;
    }
    return draws->block.word[--draws->left];
}

static int draw_below(struct draws *draws, int limit)
{
    return (int)(draw(draws) % (uint32_t)limit);
}

static bool one_in(struct draws *draws, int count)
{
    return count > 0 && draw_below(draws, count) == 0;
}

/* Draws a number with which sums, products and comparisons go wrong. */
static double draw_odd(struct draws *draws)
{
    static const double odd[] = {NAN,    INFINITY, -INFINITY, 0,       -0.0,   -1,
                                 1e308,  -1e308,   DBL_MAX,   DBL_MIN, 5e-324, 1e15,
                                 1e-300, 1e9,      0x1p63,    0x1p64,  1e100};

    return odd[draw_below(draws, sizeof odd / sizeof odd[0])];
}

/* low <= x < high, logarithmically. */
static double draw_number(struct draws *draws, double low, double high)
{
    if (one_in(draws, draws->odd))
        return draw_odd(draws);
    return low * pow(high / low, philox_uniform(draw(draws)));
}

static uint64_t draw_memory(struct draws *draws, int limit)
{
    if (one_in(draws, draws->odd))
        return one_in(draws, 2) ? UINT64_MAX : UINT64_MAX / 2 + draw(draws);
    return (uint64_t)draw_below(draws, limit);
}

static void make_device(struct policy_device *device, int type, struct draws *draws)
{
    static const double ratios[] = {0, 0.5, 0.85, 1, 2};

    *device = (struct policy_device){
        .name = type_names[type],
        .type = type,
        .jobs_max = draw_below(draws, 4),
        .memory_capacity = one_in(draws, 8) ? 0 : 1000,
        .high_watermark_ratio = ratios[draw_below(draws, 5)],
        .low_watermark_ratio = one_in(draws, 4) ? ratios[draw_below(draws, 5)] : 0,
        .draining = one_in(draws, 12),
        .lost = one_in(draws, 16),
    };
    if (draws->memory_free > 0)
        device->memory_outside = draw_memory(draws, draws->memory_free);
    if (one_in(draws, draws->odd))
        device->high_watermark_ratio = draw_odd(draws);
    if (one_in(draws, draws->odd))
        device->low_watermark_ratio = draw_odd(draws);
    if (one_in(draws, draws->odd))
        device->memory_capacity = UINT64_MAX;
}

static void make_job(struct wild_snapshot *wild, size_t index, struct draws *draws)
{
    struct policy_job *job = &wild->jobs[index];
    int types = wild->snapshot.type_count;
    struct policy_estimate *estimates = wild->estimates + index * (size_t)types;
    size_t devices = wild->snapshot.device_count;

    *job = (struct policy_job){
        .id = (int64_t)index + 1,
        .user = draw_below(draws, (int)wild->snapshot.user_count + 1) - 1,
        .priority = one_in(draws, 3) ? draw_below(draws, 5) - 2 : 0,
        .devices = 1 + draw_below(draws, draws->gang_max),
        .waited = draw_number(draws, 1, draws->starving ? 1e8 : 1e4),
        .restart_seconds = draw_number(draws, 1, 100),
        .bonus = one_in(draws, 4) ? draw_number(draws, 0.1, 10) : 0,
        .left_deviation = one_in(draws, 4) ? draw_number(draws, 0.01, 2) : 0,
        .pinned = one_in(draws, 8),
        .starved = one_in(draws, 3),
        .resumes = one_in(draws, 2),
        .length_known = !one_in(draws, 4),
        .movable = !one_in(draws, 4),
        .shares = one_in(draws, 2),
        .estimates = estimates,
        .alike = one_in(draws, 8) ? draw_below(draws, one_in(draws, 8) ? INT_MAX : 1000) : 0,
    };
    if (one_in(draws, draws->odd))
        job->devices = INT_MAX - draw_below(draws, 2);
    if (one_in(draws, draws->odd))
        job->priority = one_in(draws, 2) ? INT_MAX : INT_MIN;
    if (one_in(draws, 3))
        job->allowed = wild->masks[draw_below(draws, WILD_MASKS)];
    if (devices > 0 && job->pinned)
        job->allowed = wild->masks[WILD_MASKS + draw_below(draws, (int)devices)];
    if (one_in(draws, 5))
        job->preferred = wild->masks[draw_below(draws, WILD_MASKS)];
    for (int type = 0; type < types; type++)
        estimates[type] = (struct policy_estimate){
            .seconds = one_in(draws, 6) ? INFINITY : draw_number(draws, 10, 1e5),
            .deviation = one_in(draws, 3) ? draw_number(draws, 0.01, 3) : 0,
            .utilisation = draw_number(draws, 0.05, 1.5),
            .memory = draw_memory(draws, 900),
        };
}

/* Lets the job run somewhere, whatever runs there. */
static void run_job(struct wild_snapshot *wild, size_t index, size_t *at, struct draws *draws)
{
    struct policy_job *job = &wild->jobs[index];
    size_t devices = wild->snapshot.device_count;
    int type, count = 0, *on = wild->placed + *at;

    if (devices == 0)
        return;
    type = wild->devices[draw_below(draws, (int)devices)].type;
    for (size_t d = 0; d < devices && count < job->devices; d++)
        if (wild->devices[d].type == type && !one_in(draws, 3))
            on[count++] = (int)d;
    if (count < job->devices)
        return;
    job->on = on;
    *at += (size_t)count;
}

static void make_masks(struct wild_snapshot *wild, struct draws *draws)
{
    memset(wild->masks, 0, sizeof wild->masks);
    for (size_t d = 0; d < wild->snapshot.device_count; d++) {
        policy_mask_add(wild->masks[WILD_MASKS + d], (int)d);
        for (int mask = 1; mask < WILD_MASKS; mask++) /* the first allows none */
            if (one_in(draws, 2))
                policy_mask_add(wild->masks[mask], (int)d);
    }
}

static struct policy_settings make_settings(struct draws *draws)
{
    struct policy_settings settings = policy_settings_default();

    settings.makespan = one_in(draws, 6);
    if (one_in(draws, 8))
        settings.congestion = 0;
    if (one_in(draws, 8))
        settings.starvation_factor = 0;
    if (one_in(draws, 8))
        settings.utilisation_limit = draw_number(draws, 0.5, 8);
    if (one_in(draws, draws->odd))
        settings.congestion = draw_odd(draws);
    if (one_in(draws, draws->odd))
        settings.length_exponent = draw_odd(draws);
    if (one_in(draws, draws->odd))
        settings.age_exponent = draw_odd(draws);
    if (one_in(draws, draws->odd))
        settings.share_exponent = draw_odd(draws);
    if (one_in(draws, draws->odd))
        settings.hysteresis = draw_odd(draws);
    if (one_in(draws, draws->odd))
        settings.optimism = draw_odd(draws);
    if (one_in(draws, draws->odd))
        settings.starvation_factor = draw_odd(draws);
    if (one_in(draws, draws->odd))
        settings.starvation_seconds = draw_odd(draws);
    return settings;
}

/* Draws a small number mostly, and sometimes as many as possible. */
static int draw_size(struct draws *draws, int few, int many, int most)
{
    if (one_in(draws, 12))
        return 0;
    if (one_in(draws, 400))
        return most;
    return draw_below(draws, one_in(draws, 6) ? many : few) + 1;
}

void wild_snapshot_make(struct wild_snapshot *wild, uint64_t seed)
{
    struct draws draws = {.seed = seed};
    struct policy_snapshot *snapshot = &wild->snapshot;
    size_t placed = 0;

    *snapshot = (struct policy_snapshot){
        .type_names = type_names, .devices = wild->devices, .users = wild->users};
    draws.odd = one_in(&draws, 3) ? 4 << draw_below(&draws, 5) : 0;
    draws.memory_free = one_in(&draws, 3) ? 0 : 1 + draw_below(&draws, 1200);
    draws.starving = one_in(&draws, 3);
    snapshot->type_count = 1 + draw_below(&draws, one_in(&draws, 4) ? POLICY_TYPES_MAX : 6);
    snapshot->device_count = (size_t)draw_size(&draws, 16, 48, POLICY_DEVICES_MAX);
    snapshot->job_count = (size_t)draw_size(&draws, 30, 120, 1500);
    snapshot->user_count = (size_t)draw_below(&draws, WILD_USERS_MAX + 1);
    draws.gang_max = 1 + draw_below(&draws, one_in(&draws, 8) ? 40 : one_in(&draws, 3) ? 1 : 5);
    wild->jobs = calloc(snapshot->job_count + 1, sizeof *wild->jobs);
    wild->estimates =
        calloc(snapshot->job_count * (size_t)snapshot->type_count + 1, sizeof *wild->estimates);
    wild->placed = calloc((snapshot->job_count + 1) * POLICY_DEVICES_MAX, sizeof *wild->placed);
    if (!wild->jobs || !wild->estimates || !wild->placed)
        abort();
    snapshot->jobs = wild->jobs;
    for (size_t d = 0; d < snapshot->device_count; d++)
        make_device(&wild->devices[d], draw_below(&draws, snapshot->type_count), &draws);
    for (size_t u = 0; u < snapshot->user_count; u++)
        wild->users[u] =
            (struct policy_user){.share = one_in(&draws, 3) ? draw_number(&draws, 0.1, 10) : 0,
                                 .usage = draw_number(&draws, 1, 1e6),
                                 .device_max = one_in(&draws, 3) ? draw_below(&draws, 8) : 0};
    make_masks(wild, &draws);
    for (size_t i = 0; i < snapshot->job_count; i++) {
        make_job(wild, i, &draws);
        if (one_in(&draws, 3))
            run_job(wild, i, &placed, &draws);
    }
    snapshot->settings = make_settings(&draws);
    if (!one_in(&draws, 3))
        return;
    for (size_t d = 0; d < snapshot->device_count; d++) {
        bool alone = d == 0 || one_in(&draws, 2);

        wild->ledgers[d] = alone ? (int)d : wild->ledgers[draw_below(&draws, (int)d)];
        wild->devices[d].same_hardware = one_in(&draws, 3);
    }
    snapshot->ledgers = wild->ledgers;
}

void wild_snapshot_free(struct wild_snapshot *wild)
{
    free(wild->jobs);
    free(wild->estimates);
    free(wild->placed);
}
