/* job_preemption.h: whether a running job may be asked to save its state and make room, and how. */
#pragma once

#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdbool.h>

struct job_preemption {
    bool possible;
    int signal;           /* sent to the trainee only; 0: SIGTERM to the whole job */
    double grace_seconds; /* before it is killed; below 0: the daemon's StopGrace */
};

/* Reads it from a normalised specification. A native job always saves its state; a command does
 * only if its specification says so. */
struct job_preemption job_preemption_read(struct json_object *spec, enum job_kind kind);
