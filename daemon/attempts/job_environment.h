/* job_environment.h: the environment variables that tell a command where it was placed and what was
 * booked for it; docs/command-jobs.md has the table. Pure functions. */
#pragma once

#include "daemon/devices/driver.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

/* A device of the attempt. */
struct job_environment_device {
    const struct device_driver *driver;
    const char *name, *id; /* "cuda:0", "GPU-5bbf…" */
    uint64_t memory_total; /* bytes, 0: not known */
};

struct job_environment {
    int64_t attempt; /* from 1; 0: a command at the job's end, which is none */
    int cores;       /* booked */
    uint64_t memory; /* bytes booked of the machine's memory, 0: not known */
    /* bytes booked on each device, 0: not known; and whether the job declared them. A program is
     * limited to what it declares, not to what its earlier runs used. */
    uint64_t device_memory;
    bool device_memory_declared;
    const char *checkpoint_directory; /* shared by all attempts of the job, or NULL */
    const struct job_environment_device *devices;
    int device_count;                           /* 0: it runs on the CPU */
    const struct device_driver *const *drivers; /* of all kinds of devices; NULL ends the list */
};

/* Adds the variables to `variables`, an object of names and texts. A variable that the user has set
 * stays, except names that begin with TRAIND_, which are always set. */
void job_environment_add(const struct job_environment *environment, struct json_object *variables);

/* For a native job: adds only the variables that say which device it sees, over any that the user
 * has set. */
void job_environment_add_device(const struct job_environment *environment,
                                struct json_object *variables);
