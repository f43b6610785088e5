/* workload.h: what is known about a piece of work, which is a plan (native jobs) or a command. A
 * user's jobs that do the same work share one workload; it lives as long as any of them. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/jobs/predictions.h"
#include "daemon/types/job_types.h"
#include "daemon/work/command_history.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a prediction rests on. */
enum workload_basis {
    BASIS_UNKNOWN,     /* nothing; it is a guess */
    BASIS_DECLARED,    /* the specification */
    BASIS_CALIBRATION, /* the plan's cost and the device's measured speed */
    BASIS_LEARNT,      /* earlier runs of the same command */
    BASIS_MEASURED     /* steps of this very plan on such a device */
};
DECLARE_STRING_TABLE(workload_basis, enum workload_basis);

/* How long a step of the plan takes on one type of device. */
struct workload_speed {
    double step_seconds; /* NAN: not known */
    double deviation;    /* standard deviation of log(step_seconds) */
    double steps;        /* how many were measured; 0: it is a prediction */
};

/* What the plan says about a type of device with a backend and memory of its own. */
struct workload_plan {
    int type;
    bool runs;
    bool may_change;      /* planning again may remove the reason why it does not run */
    uint64_t memory;      /* bytes of the device: arena, context, libraries */
    double kernels;       /* per step */
    double step_seconds;  /* predicted; NAN: the device was not calibrated */
    double other_seconds; /* evaluations, over the whole run */
    char precision[16];   /* that the plan has chosen there; "": unknown */
    char reason[160];     /* why it does not run there */
};

struct workload {
    struct predictions *predictions; /* those of its user */
    struct workload *next_in_bucket;
    size_t references;
    uid_t uid;
    enum job_kind kind;
    char digest[JOB_DIGEST_SIZE];

    /* of a plan: */
    bool planned;
    uint64_t process_bytes;      /* on the CPU */
    uint64_t arena_bytes;        /* on a simulated device */
    char *refusal;               /* why the CPU cannot run it; owned; NULL: it can */
    struct workload_plan *plans; /* for other types of devices; owned */
    int plan_count;
    double steps;         /* in a whole run */
    double kernels;       /* per step */
    double flops;         /* per step */
    double step_seconds;  /* predicted on the CPU; NAN: it was not calibrated */
    double other_seconds; /* on the CPU: evaluations, over the whole run */
    uint64_t step;        /* prediction_step() of the plan's step_digest */
    char *choices;        /* JSON; owned; NULL: none, or longer than PLAN_CHOICES_MAX */
    bool batches_divide;  /* smaller batches with accumulation give the same updates */

    /* of a command, from earlier runs: */
    int64_t runs;
    int runs_unread;                     /* runs stored since the history was read */
    double seconds;                      /* of one run, on any device; NAN: not known */
    double seconds_deviation;            /* of log(seconds) */
    double seconds_on[DEVICE_TYPES_MAX]; /* of one run on each type of device; NAN: not known */
    uint64_t memory, device_memory;      /* bytes to book; 0: not known */
    double cores;                        /* how many it kept busy; 0: not known */
    bool held;                           /* an earlier run held memory of a GPU */
    bool held_none;                      /* its last run on a GPU held no memory of it */

    /* latest seconds of a step beside other jobs on each type of GPU; 0: never measured. They
     * include the slowdown by the others, so they are used only while no step was measured
     * alone. */
    double shared_step_seconds[DEVICE_TYPES_MAX];
    /* part of each type of GPU that it keeps busy, measured while it ran alone; 0: not known */
    double utilisation_on[DEVICE_TYPES_MAX];
    /* factor on utilisation_on for a job that shares the GPU through a service, from the times of
     * such jobs' steps; 0: not known */
    double service_share_on[DEVICE_TYPES_MAX];
};

struct workload_table {
    struct workload **buckets;
    size_t bucket_count, count;
    struct predictions_table *predictions; /* must outlive the table */
};

/* The shared workload, made if there is none, with one more reference. NULL: no memory. */
struct workload *workload_take(struct workload_table *table, uid_t uid, enum job_kind kind,
                               const char *digest);
/* The shared workload without a further reference; NULL: there is none. */
struct workload *workload_find(const struct workload_table *table, uid_t uid, const char *digest);
void workload_drop(struct workload_table *table, struct workload *workload);
void workload_table_release(struct workload_table *table);

/* Fills in what the plan says; `plan` is lent. */
void workload_set_plan(struct workload *workload, struct json_object *plan);

/* What the plan says about the device's type. NULL: nothing, or the type needs no plan of its
 * own. */
const struct workload_plan *workload_plan_on(const struct workload *workload,
                                             const struct device *device);
/* Whether the plan, as JSON, says something about the device's type that planning again would not
 * change. */
bool workload_plan_covers(struct json_object *plan, const struct devices *devices,
                          const struct device *device);

/* Fills in the earlier runs of the command on `count` types of device. types[i] is the type of
 * rows[i] on this machine, negative if no device has it any more. */
void workload_set_history(struct workload *workload, const struct command_history_row *rows,
                          const int *types, int count);

/* The plan's choices with batches of half the size and twice as many batches per update. False: the
 * batches cannot be divided. */
bool workload_halve_batches(const struct workload *workload, char choices[PLAN_CHOICES_MAX]);

/* The plan's choices for a run on the device, by which its memory is booked; "": unknown.
 * `halved`: with smaller batches, if they can be divided. */
void workload_choices(const struct workload *workload, const struct device *device, bool halved,
                      char choices[PLAN_CHOICES_MAX]);

/* Bytes of memory that the work needs on the device; 0: not known. */
uint64_t workload_memory(const struct workload *workload, const struct device *device);

/* How long a step of the plan takes on the device: as measured on its type, preferably alone, else
 * as predicted. */
struct workload_speed workload_speed(const struct workload *workload, const struct device *device,
                                     enum workload_basis *basis);

/* How long a step took without slowdown by other jobs; step_seconds are NAN if none was
 * measured. */
struct workload_speed workload_measured(const struct workload *workload, int type);

/* Takes in that `steps` steps took `seconds` each on average on a device of the type. */
void workload_observe(struct workload *workload, int type, double seconds, double steps);

/* Takes in that steps took `seconds` each beside other jobs, all of which slow each other down. */
void workload_observe_shared(struct workload *workload, int type, double seconds);

/* Whether steps were timed on a device of the type, alone or beside other jobs. */
bool workload_was_timed(const struct workload *workload, int type);
