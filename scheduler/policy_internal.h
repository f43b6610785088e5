/* policy_internal.h: what the parts of policy_decide() share. */
#pragma once

#include "scheduler/policy.h"
#include "scheduler/solve.h"
#include "scheduler/value.h"

enum {
    POOL_NONE = -1,
    GANG_OPTIONS_MAX = 16 /* ways to make up a gang from several pools of one type */
};

/* Pools, with one more for each device that is reserved. */
static inline int pools_max(const struct policy_snapshot *snapshot)
{
    return 2 * (int)snapshot->device_count + 1;
}

/* Devices that no job can tell apart: of one type, with as much memory for our jobs, allowed to and
 * preferred by the same jobs, and no job on them that would have to share. */
struct pool {
    int type;
    int device;     /* one of them */
    uint64_t limit; /* bytes for our jobs */
    int free;       /* devices not taken yet */
    bool closed;    /* nobody joins: only who is there may stay */
    bool alone;     /* holds one device, whose jobs share it */
    /* a reservation took these devices out of the pool `base` */
    int base;      /* POOL_NONE: not reserved */
    double until;  /* seconds; reserved: who takes them must have ended by then */
    int64_t owner; /* job that they are reserved for */
};

enum job_state {
    JOB_UNDECIDED,
    JOB_PLACED,  /* has an option */
    JOB_BLOCKED, /* may not be placed any more: verdict says why */
};

/* Whether enough devices of some type could take a job, were nobody of ours on them. */
enum job_suits {
    SUITS_EVER = 1, /* were no others there either, and none draining */
    SUITS_OPEN = 2, /* of those that are not draining */
    SUITS_NOW = 4   /* with what others hold now */
};

struct job_choice {
    enum job_state state;
    unsigned suits;             /* of enum job_suits */
    unsigned types;             /* a bit for each that has enough devices for it, draining or not */
    struct solve_option option; /* when placed */
};

/* What starving jobs may take, and why: policy_starving.c. */
struct starving_part {
    double most, taken;               /* devices */
    bool held[POLICY_TYPES_MAX];      /* such a job runs on the type, or waits for it */
    double work[POLICY_TYPES_MAX];    /* device-seconds of all jobs, each on its best type */
    double devices[POLICY_TYPES_MAX]; /* that are not lost */
};

/* One decision being made. */
struct policy_run {
    const struct policy_snapshot *snapshot;
    struct workspace workspace;
    struct policy_placement *placements;
    struct job_value *values;
    struct job_choice *choices;
    double *shares; /* of the time to the last end, a row for each job; NULL: not the makespan */
    double rest;    /* that time, seconds */
    double *user_factors;
    int *user_devices; /* given to each user so far */
    struct starving_part part;
    size_t *running; /* the jobs that are on devices, in order: far fewer than wait */
    size_t running_count;
    size_t placed[POLICY_DEVICES_MAX]; /* the jobs that have an option */
    size_t placed_count;
    uint64_t limit_ever[POLICY_DEVICES_MAX], limit_now[POLICY_DEVICES_MAX]; /* device_limit() */
    bool above_watermark[POLICY_DEVICES_MAX]; /* device_above_watermark() with nobody of ours there
                                               */
    int *device_lists;                        /* devices of each placed job */
    size_t device_list_at;
    struct policy_load *loads;
    struct pool pools[2 * POLICY_DEVICES_MAX + 1];
    int pool_count;
    /* POOL_NONE: taken by a job that cannot be moved, or lost */
    int device_pool[POLICY_DEVICES_MAX];
    double device_until[POLICY_DEVICES_MAX]; /* seconds until such a job is predicted to end */
    bool exact;
};

/* ---- policy_numbers.c ------------------------------------------------------------------------ */

/* Room for a snapshot whose numbers are mended. */
struct numbers {
    struct policy_snapshot *snapshot;
    struct policy_job *jobs;
    struct policy_estimate *estimates;
};

struct numbers numbers_take(struct workspace *workspace, const struct policy_snapshot *snapshot);

/* Whether all numbers of the job can be calculated with. */
bool numbers_are_usable(const struct policy_job *job, int type_count);

/* The snapshot with numbers that can be calculated with: a prediction that is no number is none,
 * but for who runs there; no time is negative, or beyond 30,000 years; other numbers that are none
 * count as not given. `usable`: those of all jobs are. */
const struct policy_snapshot *numbers_mend(struct numbers numbers,
                                           const struct policy_snapshot *snapshot, bool usable);

/* ---- policy_pools.c -------------------------------------------------------------------------- */

/* Bytes that jobs of ours may hold on the device; UINT64_MAX: no limit. `now`: with what others
 * hold at present, else with nobody there. */
uint64_t device_limit(const struct policy_device *device, bool now);

/* Whether nobody may join: what others hold and `booked` is above the device's low watermark, or
 * where it has none, or one that is higher, the high one. */
bool device_above_watermark(const struct policy_device *device, uint64_t booked);

/* Bytes of both; no more than can be counted. */
static inline uint64_t memory_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* How much of a device the job keeps busy; one that is not known, all of it. */
static inline double job_utilisation(const struct policy_estimate *estimate)
{
    return estimate->utilisation > 0 && estimate->utilisation < 1 ? estimate->utilisation : 1;
}

/* What the utilisations of jobs that share the device may add up to; `here`: of one that is there,
 * which stays a little longer than others may come, because utilisations are measured and waver. */
static inline bool utilisation_allows(const struct policy_snapshot *snapshot,
                                      const struct policy_device *device, double utilisation,
                                      bool here)
{
    double limit = device->utilisation_limit > 0 ? device->utilisation_limit
                                                 : snapshot->settings.utilisation_limit;

    return utilisation <= limit * (here ? POLICY_STAYING_UTILISATION : 1) + 1e-9;
}

/* Whether the job may use the device. */
static inline bool job_allows(const struct policy_job *job, int device)
{
    return !job->allowed || policy_mask_has(job->allowed, device);
}

/* Whether `device` is one of the `count` in the list, which may be NULL. */
static inline bool job_holds(const int *devices, int count, int device)
{
    for (int d = 0; devices && d < count; d++)
        if (devices[d] == device)
            return true;
    return false;
}

/* Whether any device is free, reserved or not: else no further job gets one. */
bool pools_have_free(const struct policy_run *run);

/* Groups the devices that no unmovable job is on. */
void pools_make(struct policy_run *run);

/* No job has more options than this. */
size_t job_options_max(const struct policy_snapshot *snapshot);

/* All options of the job in what is free; their number. */
int job_options(const struct policy_run *run, size_t index, struct solve_option *options);

/* Books the option's devices, for the user too. */
void place_job(struct policy_run *run, size_t index, const struct solve_option *option);

/* Whether the job's devices would be more than its user may have. */
bool user_is_at_limit(const struct policy_run *run, const struct policy_job *job);

/* ---- policy_starving.c ----------------------------------------------------------------------- */

/* Seconds until the job, which waits, may be served as a starving one where it is not yet;
 * INFINITY: not by time alone. */
double seconds_to_starving(const struct policy_run *run, size_t index);

/* Bytes of workspace for place_starving(). */
size_t starving_workspace_size(const struct policy_snapshot *snapshot);

/* Places the starving jobs, and makes the reservations of those that cannot be placed. */
void place_starving(struct policy_run *run);

/* ---- policy_classes.c ------------------------------------------------------------------------ */

/* Bytes of workspace for place_classes(). */
size_t classes_workspace_size(const struct policy_snapshot *snapshot);

/* Places all undecided jobs, priority by priority. */
void place_classes(struct policy_run *run);

/* ---- policy_devices.c ------------------------------------------------------------------------ */

/* Bytes of workspace for place_on_devices(). */
size_t sharing_workspace_size(const struct policy_snapshot *snapshot);

/* Gives every placed job its devices, then lets jobs share. */
void place_on_devices(struct policy_run *run);
