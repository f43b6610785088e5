/* workload.h: what is known of a piece of work: a plan (native jobs) or a command. Jobs that do the
 * same, of the same user, share one; it lives as long as one of them does. */
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
enum prediction_basis {
    BASIS_UNKNOWN,     /* nothing: a guess */
    BASIS_DECLARED,    /* the specification */
    BASIS_CALIBRATION, /* the plan's cost and the device's measured speed */
    BASIS_LEARNT,      /* earlier runs of the same command */
    BASIS_MEASURED     /* steps of this very plan on such a device */
};
DECLARE_STRING_TABLE(prediction_basis, enum prediction_basis);

/* A step of the plan on one type of device. */
struct workload_speed {
    double step_seconds; /* NAN: not known */
    double deviation;    /* standard deviation of log(step_seconds) */
    double steps;        /* measured; 0: predicted */
};

/* What the plan says of a type of device that has a backend and a memory of its own. */
struct workload_plan {
    int type;
    bool runs;
    bool may_change;      /* why it does not run there may be over when it is planned again */
    uint64_t memory;      /* bytes of the device: arena, context, libraries */
    double kernels;       /* of a step */
    double step_seconds;  /* predicted; NAN: the device was not calibrated */
    double other_seconds; /* evaluations, in the whole run */
    char reason[160];     /* why it does not run there */
};

struct workload {
    struct predictions *predictions; /* its user's */
    struct workload *next_in_bucket;
    size_t references;
    uid_t uid;
    enum job_kind kind;
    char digest[JOB_DIGEST_SIZE];

    /* of a plan */
    bool planned;
    uint64_t process_bytes;      /* on the CPU */
    uint64_t arena_bytes;        /* on a simulated device */
    char *refusal;               /* why the CPU does not run it; owned, NULL: it does */
    struct workload_plan *plans; /* of other devices; owned */
    int plan_count;
    double steps;         /* of a whole run */
    double kernels;       /* of a step */
    double flops;         /* of a step */
    double step_seconds;  /* predicted on the CPU; NAN: it was not calibrated */
    double other_seconds; /* on the CPU: evaluations, in the whole run */
    uint64_t step;        /* prediction_step() of its step_digest */
    char *choices;        /* JSON; owned, NULL: there are none, or they are longer than any that
                             this program makes */
    bool batches_divide;  /* smaller batches, accumulated, give the same updates */

    /* of a command, from earlier runs */
    int64_t runs;
    int runs_unread;                     /* stored since they were read */
    double seconds;                      /* of one, anywhere; NAN: not known */
    double seconds_deviation;            /* of log(seconds) */
    double seconds_on[DEVICE_TYPES_MAX]; /* on each type of device; NAN: not known */
    uint64_t memory, device_memory;      /* to be booked; 0: not known */
    double cores;                        /* that it kept busy; 0: not known */
    bool held_none;                      /* of the memory of a GPU, in its last run on one */

    /* seconds of a step beside other jobs on each type of GPU, the latest; 0: not seen. They hold
     * the slowdown by the others, so they are used only while no step was measured alone. */
    double shared_step_seconds[DEVICE_TYPES_MAX];
    /* part of each type of GPU that it keeps busy, measured while it was alone; 0: not known */
    double utilisation_on[DEVICE_TYPES_MAX];
    /* of that, what one adds to others where they share the GPU by MPS, as their steps have told;
     * 0: not known */
    double mps_share_on[DEVICE_TYPES_MAX];
};

struct workload_table {
    struct workload **buckets;
    size_t bucket_count, count;
    struct predictions_table *predictions; /* outlives it */
};

/* The shared one; one more reference. NULL: no memory. */
struct workload *workload_take(struct workload_table *table, uid_t uid, enum job_kind kind,
                               const char *digest);
/* The one that is there, without a reference, or NULL. */
struct workload *workload_find(const struct workload_table *table, uid_t uid, const char *digest);
void workload_drop(struct workload_table *table, struct workload *workload);
void workload_table_release(struct workload_table *table);

/* Takes in a plan. */
void workload_set_plan(struct workload *workload, struct json_object *plan);

/* What the plan says of the device's type; NULL: nothing, or that needs no plan of its own. */
const struct workload_plan *workload_plan_on(const struct workload *workload,
                                             const struct device *device);
/* Whether a plan, as JSON, says something of the device's type that planning again would not
 * change. */
bool workload_plan_covers(struct json_object *plan, const struct devices *devices,
                          const struct device *device);

/* Takes in what earlier runs of the command took on `count` types of device; types[i]: that of
 * rows[i] here, below 0 when no device has it any more. */
void workload_set_history(struct workload *workload, const struct command_history_row *rows,
                          const int *types, int count);

/* The plan's choices with batches of half the size, twice as many to an update. False: they do not
 * divide. */
bool workload_halve_batches(const struct workload *workload, char choices[PLAN_CHOICES_MAX]);

/* Bytes that it needs on such a device; 0: not known. */
uint64_t workload_memory(const struct workload *workload, const struct device *device);

/* A step of a plan on the device: measured on its type, alone if possible, else predicted. */
struct workload_speed workload_speed(const struct workload *workload, const struct device *device,
                                     enum prediction_basis *basis);

/* A step as measured without a slowdown by others; step_seconds are NAN if it was not. */
struct workload_speed workload_measured(const struct workload *workload, int type);

/* `steps` steps took `seconds` each on average on a device of the type. */
void workload_observe(struct workload *workload, int type, double seconds, double steps);

/* Steps took `seconds` each beside other jobs that slow each other down. */
void workload_observe_shared(struct workload *workload, int type, double seconds);

/* Whether steps were timed on a device of the type, alone or beside others. */
bool workload_was_timed(const struct workload *workload, int type);
