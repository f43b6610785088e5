/* random_snapshot.c: see random_snapshot.h. */
#include "tests/support/random_snapshot.h"

#include "base/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {"alpha", "beta", "gamma", "delta"};

struct draws {
    uint64_t seed, count;
};

/* 0 <= x < 1 */
static double draw(struct draws *draws)
{
    return philox_uniform(
        philox_draw(draws->seed, philox_stream(PHILOX_TEST, 4), draws->count++).word[0]);
}

static int draw_below(struct draws *draws, int limit)
{
    return (int)(draw(draws) * limit);
}

static void make_devices(struct random_snapshot *random, const struct random_shape *shape,
                         struct draws *draws)
{
    for (int d = 0; d < shape->devices; d++) {
        struct policy_device *device = &random->devices[d];

        *device = (struct policy_device){.name = type_names[d * shape->types / shape->devices],
                                         .type = d * shape->types / shape->devices};
        if (shape->plain)
            continue;
        device->memory_capacity = 1000;
        device->high_watermark_ratio = draw_below(draws, 4) ? 0.85 : 0;
        device->low_watermark_ratio = draw_below(draws, 6) ? 0 : 0.5;
        device->memory_outside = draw_below(draws, 3) ? 0 : (uint64_t)draw_below(draws, 900);
        device->jobs_max = draw_below(draws, 4) ? 0 : 2;
        device->draining = draw_below(draws, 12) == 0;
        device->lost = draw_below(draws, 16) == 0;
    }
}

/* Up to three devices to a ledger; every other one is another way to the GPU of its ledger. It
 * draws nothing, so the rest of the snapshot is the same without. */
static void make_ledgers(struct random_snapshot *random, const struct random_shape *shape)
{
    for (int d = 0; d < shape->devices; d++) {
        random->ledgers[d] = d / 3 * 3;
        random->devices[d].same_hardware = d % 3 && d % 2;
    }
    random->snapshot.ledgers = random->ledgers;
}

static void make_job(struct random_snapshot *random, const struct random_shape *shape, int index,
                     struct draws *draws)
{
    struct policy_job *job = &random->jobs[index];
    struct policy_estimate *estimates = &random->estimates[index * shape->types];
    double best = 60 * pow(10, 3 * draw(draws));

    *job = (struct policy_job){.id = index + 1,
                               .user = draw_below(draws, 5) - 1,
                               .devices = 1 + draw_below(draws, shape->gang_max),
                               .waited = best * pow(10, 3 * draw(draws) - 2),
                               .restart_seconds = 30,
                               .starved = index % 2,
                               .resumes = draw_below(draws, 2),
                               .length_known = draw_below(draws, 4) != 0,
                               .movable = shape->plain || draw_below(draws, 4) != 0,
                               .shares = !shape->plain && draw_below(draws, 2),
                               .priority = shape->plain ? 0 : draw_below(draws, 3) - 1,
                               .put_first = shape->plain ? 0 : draw_below(draws, 6) - 3,
                               .estimates = estimates};
    if (shape->plain) {
        job->user = POLICY_NONE;
        job->waited = 0;
    }
    for (int type = 0; type < shape->types; type++) {
        estimates[type] = (struct policy_estimate){.seconds = best * (1 + 5 * draw(draws)),
                                                   .deviation = draw_below(draws, 3) ? 0 : 0.5};
        if (draw_below(draws, 6) == 0)
            estimates[type].seconds = INFINITY;
        if (shape->plain)
            continue;
        estimates[type].memory = (uint64_t)draw_below(draws, 700);
        estimates[type].utilisation = draw(draws);
    }
}

/* Lets the job run on devices that have room beside the running jobs. */
static void place_job(struct random_snapshot *random, const struct random_shape *shape, int index,
                      int *at, double *memory, int *jobs, struct draws *draws)
{
    struct policy_job *job = &random->jobs[index];
    int type = draw_below(draws, shape->types), count = 0, *on = random->placed + *at;
    const struct policy_estimate *estimate = &job->estimates[type];

    for (int d = 0; d < shape->devices && count < job->devices; d++)
        if (random->devices[d].type == type && isfinite(estimate->seconds) &&
            (jobs[d] == 0 || (job->shares && jobs[d] == 1 && job->devices == 1)) &&
            memory[d] + (double)estimate->memory <= 850)
            on[count++] = d;
    if (count < job->devices)
        return;
    for (int d = 0; d < count; d++) {
        memory[on[d]] += (double)estimate->memory;
        jobs[on[d]] += job->shares && job->devices == 1 ? 1 : 2;
    }
    job->on = on;
    *at += count;
}

static void make_choosy(struct random_snapshot *random, const struct random_shape *shape,
                        struct draws *draws)
{
    memset(random->masks, 0, sizeof random->masks);
    for (int mask = 0; mask < 4; mask++)
        for (int d = 0; d < shape->devices; d++)
            if (draw_below(draws, 2))
                policy_mask_add(random->masks[mask], d);
    for (int i = 0; i < shape->jobs; i++) {
        if (draw_below(draws, 2))
            random->jobs[i].allowed = random->masks[draw_below(draws, 4)];
        if (draw_below(draws, 3) == 0)
            random->jobs[i].preferred = random->masks[draw_below(draws, 4)];
        if (draw_below(draws, 8) == 0 && !random->jobs[i].on)
            random->jobs[i].alike = draw_below(draws, 50);
    }
}

void random_snapshot_make(struct random_snapshot *random, const struct random_shape *shape,
                          uint64_t seed)
{
    struct draws draws = {.seed = seed};
    double memory[POLICY_DEVICES_MAX] = {0};
    int jobs[POLICY_DEVICES_MAX] = {0}, at = 0;

    random->jobs = calloc((size_t)shape->jobs, sizeof *random->jobs);
    random->estimates =
        calloc((size_t)shape->jobs * (size_t)shape->types, sizeof *random->estimates);
    random->placed = calloc((size_t)shape->jobs * (size_t)shape->gang_max, sizeof *random->placed);
    if (!random->jobs || !random->estimates || !random->placed)
        abort();
    make_devices(random, shape, &draws);
    for (int user = 0; user < 4; user++)
        random->users[user] =
            (struct policy_user){.usage = 1e5 * draw(&draws), .device_max = user == 3 ? 2 : 0};
    for (int i = 0; i < shape->jobs; i++) {
        make_job(random, shape, i, &draws);
        if (draw_below(&draws, 2))
            place_job(random, shape, i, &at, memory, jobs, &draws);
    }
    if (shape->choosy)
        make_choosy(random, shape, &draws);
    random->snapshot = (struct policy_snapshot){.type_count = shape->types,
                                                .type_names = type_names,
                                                .devices = random->devices,
                                                .device_count = (size_t)shape->devices,
                                                .jobs = random->jobs,
                                                .job_count = (size_t)shape->jobs,
                                                .users = random->users,
                                                .user_count = 4,
                                                .settings = policy_settings_default()};
    if (shape->unified)
        make_ledgers(random, shape);
}

void random_snapshot_free(struct random_snapshot *random)
{
    free(random->jobs);
    free(random->estimates);
    free(random->placed);
}
