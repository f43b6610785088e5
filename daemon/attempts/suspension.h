/* suspension.h: an attempt gives its devices back without ending. Its shim takes the GPUs from its
 * processes (traind-suspend) and freezes them; later they get the same GPUs or others and go on.
 * The shim outlives the daemon, so what it says of a suspension is what holds. */
#pragma once

#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

struct attempt;
struct device;

/* How far the daemon knows the attempt to be. */
enum suspension {
    SUSPENSION_NONE,
    SUSPENSION_BEGINS, /* it still has its devices */
    SUSPENSION_HOLDS,
    SUSPENSION_ENDS /* its new devices are booked */
};

/* What a shim says of its job; the names are those of io.traind.Worker. */
enum suspension_state {
    SUSPENSION_RUNNING,
    SUSPENSION_SUSPENDING,
    SUSPENSION_SUSPENDED,
    SUSPENSION_RESUMING,
    SUSPENSION_BROKEN
};
DECLARE_STRING_TABLE(suspension_state, enum suspension_state);

struct suspension_news {
    enum suspension_state state;
    double seconds;      /* that the last request took */
    const char *message; /* why it was not done; NULL: it was, or there was none */
};

struct attempt_suspension {
    enum suspension state;
    struct device *devices[JOB_DEVICES_MAX]; /* that it had last */
    int device_count;     /* 0: some of them are not there since a restart, so it waits */
    uint64_t memory;      /* bytes that it held of each of them */
    double suspended;     /* seconds in all, up to the last news */
    double told;          /* when that news came, since the epoch; 0: there was none */
    bool stays;           /* the driver did not restore it to other GPUs */
    int stayed;           /* how often in a row it was not restored */
    int refused;          /* how often in a row it could not be suspended */
    double refused_until; /* when that may be tried again, since the epoch */
    bool broken;          /* what it held of a GPU is lost; attempt->stop_reason says why */
    bool measures;        /* the daemon itself asked, so the time counts */
};

/* Asks the shim to suspend the attempt. Its devices stay booked until the events say that it is. */
void attempt_suspend(struct attempt *attempt);
/* On how many devices its memory was; 1 where they are not known. */
int attempt_suspension_parts(const struct attempt *attempt);
/* Asks the shim to let a suspended attempt go on on the devices of its claim. */
void attempt_resume(struct attempt *attempt);
/* The shim of an earlier daemon has answered: notes that its job is not running. */
void attempt_suspension_found(struct attempt *attempt, struct json_object *suspension);
/* Takes what the shim says of the suspension. */
void attempt_suspension_take(struct attempt *attempt, struct json_object *suspension);
