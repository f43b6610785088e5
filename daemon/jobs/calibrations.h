/* calibrations.h: the measured speed of each device: of the CPU with a number of threads, and of
 * each type of GPU. calibrator.h measures them, the database's table `calibration` keeps them, and
 * planning runs receive them. Everything here runs on the loop. */
#pragma once

#include "base/error.h"
#include "daemon/store/store.h"
#include "proto/json.h"
struct calibration_row;

struct calibrations {
    struct store *store; /* must outlive the calibrations */
    struct calibration_row *first;
};

/* Reads the stored calibrations in the background. */
void calibrations_load(struct calibrations *calibrations, struct store *store);
void calibrations_release(struct calibrations *calibrations);

/* The calibration of "cpu" with `threads` threads, or of a type of GPU (`threads` is 0), as JSON
 * text. NULL: there is none. The text lives until the next calibrations_take(). */
const char *calibrations_find(const struct calibrations *calibrations, const char *device,
                              int threads);
/* Keeps and stores a copy of a calibration of the device, as `traind-worker calibrate` prints it.
 * -EINVAL: `json` is no calibration. -ENOSPC: too many are kept already. */
int calibrations_take(struct calibrations *calibrations, const char *device,
                      struct json_object *json, struct error *error);
