/* policy.h: which job runs on which devices. A pure function of a snapshot: no clock, no input or
 * output, no allocation beyond the workspace that the caller hands in, and the same bits out for
 * the same snapshot in.
 *
 * The rules, in the order in which they bind (docs/placement.md tells users):
 *  1. Ledger: on every device, the bytes of its jobs + what others hold <= high_watermark_ratio *
 *     capacity. Above low_watermark_ratio nobody joins. Draining and lost devices take nobody.
 *  2. A job that cannot be moved stays where it is.
 *  3. Starvation bound: a job that has waited longer than starvation_factor times its run time (and
 *     starvation_seconds) is placed before all others, the shortest first. Where jobs that cannot
 *     be moved stand in its way it holds a reservation, and others may use the reserved devices
 *     only for what ends before it begins. It keeps its devices to its end. Such jobs have
 *     POLICY_STARVING_PART of the devices. One that does not fit in it is placed so only where the
 *     work of all others would keep the devices that suit it busy for no longer than
 *     POLICY_STARVING_ROOM of the time that it has waited; and then one at a time, but where no
 *     other has, or waits for, a type of device that suits it.
 *  4. Higher priorities first; limits of users.
 *  5. Within a priority the sum of the jobs' values is the largest possible (value.h, solve.h).
 *  6. Jobs that share a device: as long as the ledger and utilisation_limit allow, where the sum of
 *     values gains from it. */
#pragma once

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

/* Whose utilisation is a part of a device's sum already may stay up to so many times the limit. */
#define POLICY_STAYING_UTILISATION 1.15

struct policy_device {
    const char *name;            /* "cuda:0", for sentences */
    int type;                    /* devices of one type are equally fast */
    int jobs_max;                /* jobs at the same time; 0: no limit but memory and utilisation */
    uint64_t memory_capacity;    /* bytes; 0: not known, no limit */
    uint64_t memory_outside;     /* bytes that others hold, as measured; a ramp-up reserve too */
    double high_watermark_ratio; /* part of the capacity that may be filled; 0: no limit */
    double low_watermark_ratio;  /* above it no further job joins; 0: no limit but the high one */
    double utilisation_limit;    /* of its jobs, in sum; 0: that of the settings */
    bool draining;               /* takes no further job; a quarantined device too */
    bool lost;                   /* whoever is on it must leave */
};

/* On a machine that has more to do than it can, everybody waits too long: were they all placed
 * first, jobs would just take turns as they came. docs/placement.md, "Figures", has what the bound
 * costs with this part and room; a larger room lets long gangs in where there is a queue, which is
 * dear (of jobs drawn from a public trace, up to 1.045 times with 0.2, where 0.1 makes 1.014). */
#define POLICY_STARVING_PART (1.0 / 6)
#define POLICY_STARVING_ROOM 0.1

/* What one job is predicted to do on as many devices of one type as it needs. */
struct policy_estimate {
    double seconds;     /* to its end, without a restart; INFINITY: cannot run there, or may not */
    double deviation;   /* standard deviation of log(seconds); 0: measured well */
    double utilisation; /* part of each device that it keeps busy; 0: not known, taken as 1 */
    uint64_t memory;    /* bytes on each device; 0: not known */
};

struct policy_job {
    int64_t id;
    int user;               /* index into users; POLICY_NONE: no limit, no share */
    int priority;           /* higher goes first */
    int devices;            /* how many of one type it needs, >= 1 */
    double waited;          /* seconds in the queue, not counting those it ran */
    double restart_seconds; /* lost when it moves or resumes */
    double bonus;           /* factor on its value, such as the user's own weighting; 0: 1 */
    double left_deviation;  /* standard deviation of `seconds` by an uncertain length, as a part of
                             * them; 0: it is certain */
    bool pinned;            /* `allowed` is where somebody has bound it to: for sentences alone */
    bool starved;      /* runs because it had waited too long: placement.starving at its start */
    bool resumes;      /* has run: its next start costs restart_seconds unless it stays */
    bool length_known; /* else `seconds` only says how long it may be */
    bool left_known;   /* of one that runs: it says itself how long; forecast.h alone asks */
    bool movable;      /* a running one can be checkpointed and moved */
    bool shares;       /* may share a device with others that do */
    const struct policy_estimate *estimates; /* one for each type */
    const int *on;                           /* the devices it runs on, or NULL */
    const uint64_t *allowed;                 /* the devices it may use (a mask); NULL: all */
    const uint64_t *preferred; /* free ones of them get it, however fast; NULL: no preference */
    int alike; /* so many more jobs like this one wait that are not in the snapshot: as many of each
                * kind as could be placed at once will do, the number of devices */
};

struct policy_user {
    double share;   /* weight of the user; 0: 1 */
    double usage;   /* device-seconds of the recent past */
    int device_max; /* devices at the same time; 0: no limit */
};

struct policy_settings {
    bool makespan;             /* what counts is when the last job ends: share.h */
    double congestion;         /* c of value.h: what the delay of others counts */
    double length_exponent;    /* a of value.h, where congestion is 0 */
    double age_exponent;       /* b: how fast waiting raises the value */
    double share_exponent;     /* how strongly fair share counts; 0: not at all */
    double hysteresis;         /* a move must be worth this many restarts */
    double optimism;           /* deviations by which an unmeasured device is thought faster */
    double starvation_factor;  /* times the run time; 0: no bound */
    double starvation_seconds; /* at least */
    double utilisation_limit;  /* of the jobs that share a device, in sum */
};

struct policy_snapshot {
    int type_count;
    const char *const *type_names; /* for sentences */
    const struct policy_device *devices;
    size_t device_count;
    const struct policy_job *jobs;
    size_t job_count;
    const struct policy_user *users;
    size_t user_count;
    struct policy_settings settings;
};

enum policy_verdict {
    POLICY_STAY,             /* goes on where it is */
    POLICY_START,            /* starts, or resumes */
    POLICY_MOVE,             /* runs now, and goes elsewhere */
    POLICY_PREEMPT,          /* runs now, and must give its devices up */
    POLICY_WAIT_DEVICES,     /* the devices are worth more to others */
    POLICY_WAIT_MEMORY,      /* would fit, were there memory free */
    POLICY_WAIT_DRAINING,    /* the devices that could take it are draining */
    POLICY_WAIT_RESERVED,    /* devices are held for a job that has waited too long */
    POLICY_WAIT_USER_LIMIT,  /* its user has as many devices as allowed */
    POLICY_WAIT_RESERVATION, /* has waited too long: the next devices are its own */
    POLICY_IMPOSSIBLE        /* not on this machine, whatever ends */
};

const char *policy_verdict_to_string(enum policy_verdict verdict);

/* What was decided about one job. */
struct policy_placement {
    enum policy_verdict verdict;
    int type;           /* of its devices; POLICY_NONE: none */
    const int *devices; /* as many as the job needs, ascending; NULL: none */
    bool starving, shared;
    double best_seconds; /* to its end on the best type */
    double seconds;      /* to its end where it was put, restart included */
    double value;        /* of the place it was given; 0 without one */
    double worth;        /* value.h's, on the type that suits it best: among those that wait */
    int64_t blocked_by;  /* WAIT_RESERVED: the job that holds the reservation */
};

/* What is on a device by the decision. */
struct policy_load {
    uint64_t memory;      /* bytes of its jobs */
    double utilisation;   /* their sum */
    int jobs;             /* how many */
    bool shared;          /* all of them may share */
    int64_t job;          /* id of the first of them in the snapshot; 0: none */
    int64_t reserved_for; /* id of the job that devices like this one are held for; 0: none */
};

struct policy_decision {
    struct policy_placement *placements; /* one for each job of the snapshot, same order */
    struct policy_load *loads;           /* one for each device */
    double value;                        /* the sum that was maximised */
    bool exact; /* the maximum was found, not only approached: fewer states than SOLVE_WORK_MAX */
    bool memory_is_awaited; /* a job waits for memory, which others may free without an event */
    /* Of a queue that waits: nothing changes by time alone before so many seconds; INFINITY: not
     * without an event. */
    double next_seconds;
};

/* The settings that docs/placement.md gives figures for. */
struct policy_settings policy_settings_default(void);

/* Bytes that policy_decide() needs for this snapshot; allocate once for the largest. Most of them
 * are touched by the worst of snapshots alone. */
size_t policy_workspace_size(const struct policy_snapshot *snapshot);

/* Decides. The decision lies in the workspace (aligned as malloc does) and lives as long as it is
 * left alone. A decision does not fail: with the workspace of policy_workspace_size() whatever is
 * inexact is said in `exact`, and numbers that are none, or that nothing can be calculated with,
 * are mended (policy_numbers.c). What fails is a wrong call: -EINVAL (an index or a count that
 * cannot be), -ENOBUFS (less workspace than that). */
int policy_decide(const struct policy_snapshot *snapshot, void *workspace, size_t size,
                  struct policy_decision *decision);

/* What one device was to one job in a decision. */
enum policy_candidate_verdict {
    POLICY_CANDIDATE_CHOSEN,
    POLICY_CANDIDATE_EQUAL,         /* as good, but not chosen */
    POLICY_CANDIDATE_SLOWER,        /* the job is thought to end later there */
    POLICY_CANDIDATE_NOT_PREFERRED, /* it got a device that it prefers */
    POLICY_CANDIDATE_RESTART,       /* faster, but not worth a move */
    POLICY_CANDIDATE_BUSY,          /* `other` has it, or others gain more from it */
    POLICY_CANDIDATE_FEW,           /* free, but the job needs more of them than are */
    POLICY_CANDIDATE_MEMORY,        /* too little is free */
    POLICY_CANDIDATE_TOO_LARGE,     /* the job needs more than our jobs may ever have there */
    POLICY_CANDIDATE_DRAINING,
    POLICY_CANDIDATE_LOST,        /* would take it, were it there */
    POLICY_CANDIDATE_RESERVED,    /* for the job `other`, which waited too long */
    POLICY_CANDIDATE_USER_LIMIT,  /* free, but the job's user has as many devices as allowed */
    POLICY_CANDIDATE_NOT_ALLOWED, /* by the job: its specification, or who pinned it elsewhere */
    POLICY_CANDIDATE_CANNOT_RUN   /* no estimate for its type */
};

const char *policy_candidate_verdict_to_string(enum policy_candidate_verdict verdict);

struct policy_candidate {
    int device;
    enum policy_candidate_verdict verdict;
    double seconds;   /* to the job's end there, with a restart where it would be one */
    double deviation; /* of log(seconds) */
    uint64_t memory;  /* bytes it needs there; 0: not known */
    uint64_t
        memory_free; /* bytes left for it by others and the jobs decided; UINT64_MAX: no limit */
    int64_t other;   /* id of the job in the way; 0: none */
};

/* What each device was to job `index`: fills at most `limit` of `candidates`, in the order of the
 * devices, and returns how many. O(devices). */
size_t policy_candidates(const struct policy_snapshot *snapshot,
                         const struct policy_decision *decision, size_t index,
                         struct policy_candidate *candidates, size_t limit);

/* One sentence for a person about the decision on job `index`; returns `text`. */
char *policy_explain(const struct policy_snapshot *snapshot, const struct policy_decision *decision,
                     size_t index, char *text, size_t size);
