/* calibrations.h: how fast a device is (the CPU with a number of threads, a type of GPU), as the
 * service itself measured it (calibrator.h) and table calibration keeps it. Planning runs are
 * handed it. Everything here runs on the loop. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdbool.h>

struct calibration_row;

struct calibrations {
    struct store *store; /* outlives it */
    struct calibration_row *first;
};

/* Reads what is stored. */
void calibrations_load(struct calibrations *calibrations, struct store *store);
void calibrations_release(struct calibrations *calibrations);

/* The JSON of "cpu" with so many threads, or of a type of GPU (0: any number), or NULL. Valid until
 * the next take. */
const char *calibrations_find(const struct calibrations *calibrations, const char *device,
                              int threads);
/* Takes over and stores what was measured of it, as `traind-worker calibrate` prints it; false: it
 * is not that. */
bool calibrations_take(struct calibrations *calibrations, const char *device,
                       struct json_object *json);
