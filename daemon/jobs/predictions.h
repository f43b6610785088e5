/* predictions.h: how long steps took, as running jobs tell, and by how much predictions are off:
 * for each user apart, because what a job tells is its user's word. A row for each step (the plan's
 * `step_digest`) and type of device, in memory and in the database's table step_time. Everything
 * here runs on the loop; rows are stored in the background. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/store/store.h"
#include "scheduler/predictor.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* log(measured / predicted) of the steps measured on one type. */
struct prediction_scale {
    int32_t type; /* prediction_type() */
    double count, sum, squares;
};

/* What one user's jobs have shown. */
struct predictions {
    struct predictions *next;
    struct predictions_table *owner;
    uid_t uid;
    struct predictor table;
    size_t count;
    struct prediction_scale scales[DEVICE_TYPES_MAX];
    int scale_count;
};

struct predictions_table {
    const struct devices *devices;
    struct store *store; /* NULL: nothing is stored */
    struct predictions *first;
};

/* `devices` and `store` outlive it. */
void predictions_init(struct predictions_table *table, const struct devices *devices,
                      struct store *store);
void predictions_release(struct predictions_table *table);
/* Reads the rows that changed last. What is read from the store afterwards comes later. */
void predictions_load(struct predictions_table *table);

/* The user's own, made where there are none; they live as long as the table. */
struct predictions *predictions_of_user(struct predictions_table *table, uid_t uid);

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
