/* policy_internal.h: the types and functions that the parts of policy_decide() share. */
#pragma once

#include "scheduler/policy.h"
#include "scheduler/solve.h"
#include "scheduler/value.h"

enum {
    POOL_NONE = -1,
    GANG_OPTIONS_MAX = 16 /* ways to compose a job's devices from several pools of one type */
};

/* The largest number of pools, with one more for each reserved device. */
static inline int pools_max(const struct policy_snapshot *snapshot)
{
    return 2 * (int)snapshot->device_count + 1;
}

/* Devices that no job can tell apart. They have the same type and the same memory for jobs, the
 * same jobs may use and prefer them, and no job runs on them that would have to share. */
struct pool {
    int type;
    int device;     /* one of them */
    uint64_t limit; /* bytes for jobs on each device */
    int free;       /* devices that no job has taken yet */
    bool closed;    /* no job may join; the jobs that run there may stay */
    bool alone;     /* the pool is one device, whose jobs share it, or whose memory others share */
    /* of reserved devices: the reservation took them out of the pool `base` */
    int base;      /* POOL_NONE: not reserved */
    double until;  /* seconds; a job that takes reserved devices must end before */
    int64_t owner; /* id of the job that they are reserved for */
};

enum job_state {
    JOB_UNDECIDED,
    JOB_PLACED,  /* has an option */
    JOB_BLOCKED, /* may not be placed; its verdict says why */
};

/* Whether enough devices of some type could take a job if no other job were on them. */
enum job_suits {
    SUITS_EVER = 1, /* if other programs held no memory and no device were draining */
    SUITS_OPEN = 2, /* counting only devices that are not draining */
    SUITS_NOW = 4   /* with the memory that other programs hold now */
};

struct job_choice {
    enum job_state state;
    unsigned suits; /* of enum job_suits */
    unsigned types; /* a bit for each type with enough devices for the job, draining or not */
    struct solve_option option; /* of JOB_PLACED */
};

/* The part of the machine that starving jobs may take (policy_starving.c). */
struct starving_part {
    double most, taken;               /* devices */
    bool held[POLICY_TYPES_MAX];      /* a starving job runs on the type or waits for it */
    double work[POLICY_TYPES_MAX];    /* device-seconds of all jobs, each on its best type */
    double devices[POLICY_TYPES_MAX]; /* devices of the type that are not lost */
};

/* The state of one decision while it is made. */
struct policy_run {
    const struct policy_snapshot *snapshot;
    struct workspace workspace;
    struct policy_placement *placements;
    struct job_value *values;
    struct job_choice *choices;
    double *floors; /* value_put_first() */
    double *shares; /* share.h's x / T, a row for each job; NULL: the makespan is not minimised */
    double rest;    /* share.h's T, seconds */
    double *user_factors;
    int *user_devices; /* devices that each user has been given so far */
    struct starving_part part;
    size_t *running; /* indices of the jobs that run, ascending; far fewer than wait */
    size_t running_count;
    size_t *placed; /* indices of the jobs with JOB_PLACED */
    size_t placed_count;
    uint64_t *limit_ever, *limit_now; /* of each device: device_limit() */
    bool *above_watermark;            /* of each device: device_above_watermark() without jobs */
    uint64_t *held_now;               /* of each device: memory_of_running(), if any job yields */
    int *device_lists;                /* memory for the devices of each placed job */
    size_t device_list_at;
    struct policy_load *loads; /* of each device */
    struct pool *pools;        /* room for pools_max() */
    int pool_count;
    int *device_pool; /* of each device; POOL_NONE: taken by a job that cannot be moved, or lost */
    double *device_until; /* of each device: seconds until that job is predicted to end */
    bool exact;
};

/* ---- policy_numbers.c ------------------------------------------------------------------------ */

/* Memory for a snapshot whose numbers are repaired. */
struct numbers {
    struct policy_snapshot *snapshot;
    struct policy_job *jobs;
    struct policy_estimate *estimates;
};

struct numbers numbers_take(struct workspace *workspace, const struct policy_snapshot *snapshot);

/* Whether no number of the job needs a repair. */
bool numbers_are_usable(const struct policy_job *job, int type_count);

/* Returns the snapshot with repaired numbers. A prediction of NaN means that the job cannot run
 * there, unless it runs there now. Times are limited to 0 and 30,000 years. Any other NaN counts as
 * not given. `usable`: numbers_are_usable() of all jobs. */
const struct policy_snapshot *numbers_mend(struct numbers numbers,
                                           const struct policy_snapshot *snapshot, bool usable);

/* ---- policy_pools.c -------------------------------------------------------------------------- */

/* Bytes that jobs may hold on the device; UINT64_MAX: no limit. `now`: subtract the memory that
 * other programs hold now. */
uint64_t device_limit(const struct policy_device *device, bool now);

/* Whether no job may join the device. That is so if `booked` bytes plus the memory of other
 * programs exceed the low watermark, or the high one if it is lower or the only one. */
bool device_above_watermark(const struct policy_device *device, uint64_t booked);

/* The sum, or UINT64_MAX if it overflows. */
static inline uint64_t memory_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t memory_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The part of a device that the job keeps busy; 1 if it is unknown. */
static inline double job_utilisation(const struct policy_estimate *estimate)
{
    return estimate->utilisation > 0 && estimate->utilisation < 1 ? estimate->utilisation : 1;
}

/* Whether jobs whose utilisations add up to `utilisation` may share the device. `here`: the job in
 * question runs there already, so POLICY_STAYING_UTILISATION applies. */
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

/* Fills in how many bytes the running jobs hold of each device. */
void memory_of_running(const struct policy_snapshot *snapshot, uint64_t *held);

/* Whether the device has `memory` bytes beside the `held` ones of the jobs that run there. */
bool device_has_beside(const struct policy_device *device, uint64_t held, uint64_t memory);

/* Whether the job may use the device now: it allows it, and no running job has to give up memory
 * for one that yields. */
bool job_may_use(const struct policy_run *run, const struct policy_job *job, int device);

/* Whether `device` is one of the `count` devices of the list, which may be NULL. */
static inline bool job_holds(const int *devices, int count, int device)
{
    for (int d = 0; devices && d < count; d++)
        if (devices[d] == device)
            return true;
    return false;
}

/* Whether any device is free, reserved or not. */
bool pools_have_free(const struct policy_run *run);

/* Groups those devices into pools that no unmovable job occupies. */
void pools_make(struct policy_run *run);

/* The largest number of options that any job has. */
size_t job_options_max(const struct policy_snapshot *snapshot);

/* Writes all options of the job on free devices to `options`. Returns their number. */
int job_options(const struct policy_run *run, size_t index, struct solve_option *options);

/* Takes the option's devices for the job, and counts them for its user. */
void place_job(struct policy_run *run, size_t index, const struct solve_option *option);

/* Whether the job's devices would exceed its user's limit. */
bool user_is_at_limit(const struct policy_run *run, const struct policy_job *job);

/* ---- policy_ledgers.c ------------------------------------------------------------------------ */

/* The device in whose memory the jobs of this one are. */
int ledger_of(const struct policy_snapshot *snapshot, int device);
/* Whether it has its memory with another device. */
bool ledger_is_shared(const struct policy_snapshot *snapshot, int device);
/* Whether both are ways to the same GPU, or the same device. */
bool device_is_same_hardware(const struct policy_snapshot *snapshot, int device, int other);
/* Takes back what was placed beyond the limits of ledgers that devices share. */
void ledgers_keep(struct policy_run *run);

/* ---- policy_starving.c ----------------------------------------------------------------------- */

/* Seconds until the waiting job may be served as a starving one; INFINITY: time alone does not make
 * it so, or it starves already. */
double seconds_to_starving(const struct policy_run *run, size_t index);

/* Bytes of workspace for place_starving(). */
size_t starving_workspace_size(const struct policy_snapshot *snapshot);

/* Places the starving jobs, and reserves devices for those that cannot be placed. */
void place_starving(struct policy_run *run);

/* ---- policy_classes.c ------------------------------------------------------------------------ */

/* Bytes of workspace for place_classes(). */
size_t classes_workspace_size(const struct policy_snapshot *snapshot);

/* Places all undecided jobs, one priority after the other. */
void place_classes(struct policy_run *run);

/* ---- policy_devices.c ------------------------------------------------------------------------ */

/* Bytes of workspace for place_on_devices(). */
size_t sharing_workspace_size(const struct policy_snapshot *snapshot);

/* Assigns devices to every placed job, then lets further jobs share devices. */
void place_on_devices(struct policy_run *run);
