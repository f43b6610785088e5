/* job_environment.h: the variables that a command finds in its environment because of where it was
 * placed and what was booked for it; docs/command-jobs.md has the table. Pure. */
#pragma once

#include "daemon/devices/driver.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

/* A device that the attempt is on. */
struct job_environment_device {
    const struct device_driver *driver;
    const char *name, *id; /* "cuda:0", "GPU-5bbf…" */
    uint64_t memory_total; /* bytes, 0: not known */
};

struct job_environment {
    int64_t attempt; /* from 1 */
    int cores;       /* booked */
    uint64_t memory; /* bytes booked of the machine's, 0: not known */
    /* bytes booked on each device, 0: not known; whether they were declared: a program is held to
     * what was declared, not to what was learnt */
    uint64_t device_memory;
    bool device_memory_declared;
    const char *checkpoint_directory; /* kept from attempt to attempt, or NULL */
    const struct job_environment_device *devices;
    int device_count;                           /* 0: the CPU */
    const struct device_driver *const *drivers; /* of all kinds, up to NULL */
};

/* Adds the variables to `variables` (names to texts). What is there already stays: the user's own
 * wins, but for the names that begin with TRAIND_, which are facts. */
void job_environment_add(const struct job_environment *environment, struct json_object *variables);

/* Of a native job: nothing but the device that it sees. That is no wish of the user's. */
void job_environment_add_device(const struct job_environment *environment,
                                struct json_object *variables);
