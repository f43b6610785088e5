/* calibrations.h: how fast a device is (the CPU with a number of threads), as the first planning
 * run measured it (`traind-worker plan --calibrate`) and table calibration keeps it: later planning
 * runs are handed it. One whose device, libraries or driver have changed is measured anew by the
 * worker, which alone knows. Everything here runs on the loop. */
#pragma once

#include "daemon/store.h"
#include "proto/json.h"

#include <stdbool.h>

struct calibration_row;

struct calibrations {
    struct store *store; /* outlives it */
    struct calibration_row *first;
    bool measuring; /* a planning run measures just now */
};

/* Reads what is stored. */
void calibrations_load(struct calibrations *calibrations, struct store *store);
void calibrations_release(struct calibrations *calibrations);

/* The JSON of the device with so many threads (0: any number), or NULL. Valid until the next take.
 */
const char *calibrations_find(const struct calibrations *calibrations, const char *device,
                              int threads);
/* Takes over and stores what a planning run has measured. */
void calibrations_take(struct calibrations *calibrations, struct json_object *json);
