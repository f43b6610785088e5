/* predictions.h: how long steps took, measured by running jobs: a row for each step (the plan's
 * `step_digest`, which jobs of all users share) and type of device, in memory and in the database's
 * table step_time; and by how much predictions are off on each type. Everything here runs on the
 * loop; rows are stored in the background. */
#pragma once

#include "daemon/device.h"
#include "daemon/store.h"
#include "scheduler/predictor.h"

#include <stdbool.h>
#include <stdint.h>

/* log(measured / predicted) of the steps measured on one type. */
struct prediction_scale {
    int32_t type; /* prediction_type() */
    double count, sum, squares;
};

struct predictions {
    const struct devices *devices;
    struct store *store; /* NULL: nothing is stored */
    struct predictor table;
    size_t count;
    struct prediction_scale scales[DEVICE_TYPES_MAX];
    int scale_count;
};

/* `devices` and `store` outlive it. */
void predictions_init(struct predictions *predictions, const struct devices *devices,
                      struct store *store);
void predictions_release(struct predictions *predictions);
/* Reads the rows that changed last. What is read from the store afterwards comes later. */
void predictions_load(struct predictions *predictions);

/* The step that a digest (hexadecimal) names; another text is as good. */
uint64_t prediction_step(const char *digest);

/* What was measured of a step on a type of struct devices; false: nothing. */
bool predictions_find(const struct predictions *predictions, uint64_t step, int type,
                      struct step_time *time);
/* `steps` steps took `seconds` each on average; `predicted` before any were measured (NAN: not). */
void predictions_observe(struct predictions *predictions, uint64_t step, int type, double predicted,
                         double seconds, double steps);

/* What a prediction for the type is to be multiplied by, and the deviation of log(measured /
 * predicted) that is left. Without measurements 1 and what tests/bench/prediction found. */
double predictions_scale(const struct predictions *predictions, int type, double *deviation);
