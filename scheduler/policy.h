/* policy.h: decides which job runs on which devices. The decision is a pure function of a snapshot.
 * It reads no clock, does no input or output, and allocates nothing beyond the caller's workspace.
 * The same snapshot gives the same decision, bit for bit.
 *
 * The rules, in the order in which they bind (docs/placement.md tells users):
 *  1. Ledger: on every device, the memory of its jobs plus the memory that other programs hold
 *     never exceeds high_watermark_ratio * capacity. Above low_watermark_ratio no job joins.
 *     Devices that share a memory have one ledger (policy_ledgers.c).
 *     Draining and lost devices take no job.
 *  2. A job that cannot be moved stays where it is.
 *  3. Starvation bound: a job starves if it has waited longer than starvation_factor times its run
 *     time, and longer than starvation_seconds. Starving jobs are placed before all others, the
 *     shortest first, and keep their devices to their end. If jobs that cannot be moved stand in
 *     its way, a starving job holds a reservation: another job may use the reserved devices only
 *     if it ends before the reservation begins. Starving jobs together get POLICY_STARVING_PART of
 *     the devices. A larger job starves only if all other work would keep the devices that suit it
 *     busy for at most POLICY_STARVING_ROOM of the time that it has waited. Of such larger jobs,
 *     each type of device serves one at a time.
 *  4. Higher priorities first; limits of users. No running job gives up memory for one that yields.
 *  5. Within a priority, the decision maximises the sum of the jobs' values (value.h, solve.h).
 *  6. Jobs share a device if the ledger and utilisation_limit allow it and the sum of values
 *     grows.
 */
#pragma once

#include "base/string_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    POLICY_TYPES_MAX = 16,
    POLICY_DEVICES_MAX = 256,
    POLICY_MASK_WORDS = POLICY_DEVICES_MAX / 64,
    POLICY_REASON_MAX = 256,
    POLICY_NONE = -1
};

/* A set of devices of the snapshot, by index: POLICY_MASK_WORDS words. */
static inline bool policy_mask_has(const uint64_t *mask, int device)
{
    return mask[device / 64] >> (device % 64) & 1;
}
static inline void policy_mask_add(uint64_t *mask, int device)
{
    mask[device / 64] |= UINT64_C(1) << (device % 64);
}

/* A job that shares a device already may stay until the sum of utilisations is this many times the
 * limit. Measured utilisations vary, and a job should not move for that. */
#define POLICY_STAYING_UTILISATION 1.15

struct policy_device {
    const char *name;         /* "cuda:0"; explanations print it */
    int type;                 /* devices of one type are equally fast */
    int jobs_max;             /* jobs at the same time; 0: only memory and utilisation limit them */
    uint64_t memory_capacity; /* bytes; 0: not known, no limit */
    uint64_t memory_outside;  /* bytes that other programs hold, as measured, and the reserve for
                                 jobs that still ramp up */
    double high_watermark_ratio; /* part of the capacity that may be filled; 0: no limit */
    double low_watermark_ratio;  /* above it no further job joins; 0: only the high one counts */
    double utilisation_limit;    /* of the sum over its jobs; 0: use the settings' limit */
    bool draining;               /* takes no further job; a quarantined device too */
    bool lost;                   /* its jobs must leave */
    /* it is another way to the GPU of its ledger: they share its time, too */
    bool same_hardware;
};

/* On an overloaded machine every job waits too long. If all of them were placed first, jobs would
 * merely run in the order in which they came. docs/placement.md, "Figures", says what the bound
 * costs with this part and this room. A larger room admits long gangs while others queue, which is
 * expensive: on jobs drawn from a public trace, 0.2 costs up to 1.045 times, 0.1 costs 1.014. */
#define POLICY_STARVING_PART (1.0 / 6)
#define POLICY_STARVING_ROOM 0.1

/* The prediction for one job on one type of device, with as many devices as the job needs. */
struct policy_estimate {
    /* to the job's end, without a restart; INFINITY: it cannot or may not run there */
    double seconds;
    double deviation;   /* standard deviation of log(seconds); 0: measured well */
    double utilisation; /* part of each device that it keeps busy; 0: unknown, taken as 1 */
    uint64_t memory;    /* bytes on each device; 0: unknown */
};

struct policy_job {
    int64_t id;
    int user;               /* index into users; POLICY_NONE: no limit, no share */
    int priority;           /* higher goes first */
    int devices;            /* how many of one type it needs, >= 1 */
    double waited;          /* seconds in the queue, without the time that it ran */
    double restart_seconds; /* what a move or a resumption costs */
    double put_first;       /* among the jobs of its user and priority that wait, those with more go
                             * first; 0: by their values alone */
    double bonus;           /* factor on its value, for example a user's own weight; 0 means 1 */
    double left_deviation;  /* standard deviation of `seconds` relative to them, because the length
                             * is uncertain; 0: the length is certain */
    bool pinned;            /* a user bound it to `allowed`; only explanations use this */
    bool starved;           /* runs because it had starved (placement.starving when it started) */
    bool resumes;      /* has run before: unless it stays, its next start costs restart_seconds */
    bool length_known; /* false: `seconds` is a guess */
    /* a running job reports its remaining time itself; only forecast.h uses this */
    bool left_known;
    bool movable; /* while it runs, it can be checkpointed and moved */
    /* it was made to leave because it held more memory than was booked for it: until it starves, it
     * takes only what the running jobs leave, whatever their priorities */
    bool yields;
    bool shares;                             /* may share a device with other jobs that may */
    const struct policy_estimate *estimates; /* one for each type */
    const int *on;                           /* the devices it runs on, or NULL */
    const uint64_t *allowed;                 /* the devices it may use (a mask); NULL: all */
    /* if one of these is free the job gets it, however slow; NULL: no preference */
    const uint64_t *preferred;
    /* how many more jobs like this one wait outside the snapshot. A snapshot needs no more jobs of
     * one kind than could be placed at once, which is the number of devices */
    int alike;
};

struct policy_user {
    double share;   /* weight of the user; 0: 1 */
    double usage;   /* device-seconds of the recent past */
    int device_max; /* devices at the same time; 0: no limit */
};

struct policy_settings {
    bool makespan;            /* minimise the time at which the last job ends: share.h */
    double congestion;        /* c of value.h: the weight of the delay of others */
    double length_exponent;   /* a of value.h, used if congestion is 0 */
    double age_exponent;      /* b of value.h: how fast waiting raises the value */
    double share_exponent;    /* g of value.h: the weight of fair share; 0: none */
    double hysteresis;        /* h of value.h: a move must gain more than this many restarts cost */
    double optimism;          /* an unmeasured device is assumed faster by this many deviations */
    double starvation_factor; /* times the run time; 0: no starvation bound */
    double starvation_seconds; /* at least */
    double utilisation_limit;  /* of the sum over the jobs that share a device */
};

struct policy_snapshot {
    int type_count;
    const char *const *type_names; /* for sentences */
    const struct policy_device *devices;
    size_t device_count;
    /* Of each device the one in whose memory its jobs are: the CPU of an integrated GPU, or itself.
     * What jobs hold on all devices of such a ledger keeps to the limits of that one, besides those
     * of their own. NULL: each device has its own memory. */
    const int *ledgers;
    const struct policy_job *jobs;
    size_t job_count;
    const struct policy_user *users;
    size_t user_count;
    struct policy_settings settings;
};

enum policy_verdict {
    POLICY_STAY,             /* keeps running where it is */
    POLICY_START,            /* starts, or resumes */
    POLICY_MOVE,             /* runs now and moves to other devices */
    POLICY_PREEMPT,          /* runs now and must give up its devices */
    POLICY_WAIT_DEVICES,     /* other jobs gain more from the devices */
    POLICY_WAIT_MEMORY,      /* too little memory is free */
    POLICY_WAIT_DRAINING,    /* the devices that could take it are draining */
    POLICY_WAIT_RESERVED,    /* devices are reserved for a starving job */
    POLICY_WAIT_USER_LIMIT,  /* its user has as many devices as allowed */
    POLICY_WAIT_RESERVATION, /* starves: the next free devices are its own */
    POLICY_IMPOSSIBLE        /* this machine can never run it */
};

DECLARE_STRING_TABLE(policy_verdict, enum policy_verdict);

/* What was decided about one job. */
struct policy_placement {
    enum policy_verdict verdict;
    int type;           /* of its devices; POLICY_NONE: none */
    const int *devices; /* as many as the job needs, ascending; NULL: none */
    bool starving, shared;
    double best_seconds; /* to its end on the best type */
    double seconds;      /* to its end where it was placed, restart included */
    double value;        /* of its place; 0: it has none */
    double worth; /* value.h's value on the type that suits it best; orders the waiting jobs */
    int64_t blocked_by; /* WAIT_RESERVED: the job that holds the reservation */
};

/* What one device holds after the decision. */
struct policy_load {
    uint64_t memory;      /* bytes of its jobs */
    double utilisation;   /* their sum */
    int jobs;             /* how many */
    bool shared;          /* all its jobs may share */
    int64_t job;          /* id of the first of them in the snapshot; 0: none */
    int64_t reserved_for; /* id of the job that devices like this one are held for; 0: none */
};

struct policy_decision {
    struct policy_placement *placements; /* one for each job of the snapshot, same order */
    struct policy_load *loads;           /* one for each device */
    double value;                        /* the sum of values that was maximised */
    bool exact; /* the value is the maximum: the search took fewer than SOLVE_WORK_MAX steps */
    /* a job waits for memory, which other programs may free at any moment */
    bool memory_is_awaited;
    /* If jobs wait: seconds until time alone may change the decision;
     * INFINITY: only an event can. */
    double next_seconds;
};

/* The settings behind the figures of docs/placement.md. */
struct policy_settings policy_settings_default(void);

/* Bytes that policy_decide() needs for this snapshot. Allocate them once for the largest snapshot:
 * only the worst case touches most of them. */
size_t policy_workspace_size(const struct policy_snapshot *snapshot);

/* Decides. The decision lies in the workspace, which is aligned as malloc() aligns, and is valid
 * until the workspace is used again. A decision never fails if the workspace has
 * policy_workspace_size() bytes: `exact` says whether it is the best one, and NaN, infinite or huge
 * numbers are replaced (policy_numbers.c). Only a wrong call fails: -EINVAL for an index or a count
 * out of range, -ENOBUFS for a workspace that is too small. */
int policy_decide(const struct policy_snapshot *snapshot, void *workspace, size_t size,
                  struct policy_decision *decision);

/* Why a decision gave a device to a job, or did not. */
enum policy_candidate_verdict {
    POLICY_CANDIDATE_CHOSEN,
    POLICY_CANDIDATE_EQUAL,         /* as good, but not chosen */
    POLICY_CANDIDATE_SLOWER,        /* the job is predicted to end later there */
    POLICY_CANDIDATE_NOT_PREFERRED, /* the job got a device that it prefers */
    POLICY_CANDIDATE_RESTART,       /* faster, but not worth a move */
    POLICY_CANDIDATE_BUSY,          /* `other` holds it, or other jobs gain more from it */
    POLICY_CANDIDATE_FEW,           /* free, but the job needs more devices than are free */
    POLICY_CANDIDATE_MEMORY,        /* too little memory is free */
    POLICY_CANDIDATE_TOO_LARGE,     /* the job needs more memory than jobs may ever hold there */
    POLICY_CANDIDATE_DRAINING,
    POLICY_CANDIDATE_LOST,        /* it was lost; else it could take the job */
    POLICY_CANDIDATE_RESERVED,    /* for `other`, a starving job */
    POLICY_CANDIDATE_USER_LIMIT,  /* free, but the job's user has as many devices as allowed */
    POLICY_CANDIDATE_NOT_ALLOWED, /* the job's specification or a pin excludes it */
    POLICY_CANDIDATE_CANNOT_RUN   /* no estimate for its type */
};

DECLARE_STRING_TABLE(policy_candidate_verdict, enum policy_candidate_verdict);

struct policy_candidate {
    int device;
    enum policy_candidate_verdict verdict;
    double seconds;   /* to the job's end there, with a restart if it would need one */
    double deviation; /* of log(seconds) */
    uint64_t memory;  /* bytes it needs there; 0: unknown */
    /* bytes that other programs and the placed jobs leave; UINT64_MAX: no limit */
    uint64_t memory_free;
    int64_t other; /* id of the job in the way; 0: none */
};

/* Fills `candidates` with what each device was to job `index`, in the order of the devices. Returns
 * how many it filled, at most `limit`. O(devices). */
size_t policy_candidates(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision, size_t index,
                         struct policy_candidate *candidates, size_t limit);

/* One sentence for a person about the decision on job `index`; returns `text`. */
char *policy_explain(const struct policy_snapshot *snapshot, const struct policy_decision *decision,
                     size_t index, char *text, size_t size);
