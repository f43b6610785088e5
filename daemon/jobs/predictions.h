/* predictions.h: the step times that running jobs report, and the errors of predictions that follow
 * from them. They are kept for each user separately, because a job's report is only its user's
 * word. There is a row for each step (the plan's `step_digest`) and type of device, in memory and
 * in the database's table step_time. Everything here runs on the loop; rows are stored in the
 * background. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/store/store.h"
#include "scheduler/predictor.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Sums of log(measured / predicted) over the steps that were measured on one type of device. */
struct prediction_scale {
    int32_t type; /* prediction_type() */
    double count, sum, squares;
};

/* What one user's jobs have reported. */
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

/* `devices` and `store` must outlive the table. */
void predictions_init(struct predictions_table *table, const struct devices *devices,
                      struct store *store);
void predictions_release(struct predictions_table *table);
/* Reads the rows that changed last. Reads that are requested from the store afterwards finish after
 * this one. */
void predictions_load(struct predictions_table *table);

/* The user's predictions, made if there are none. They live as long as the table. */
struct predictions *predictions_of_user(struct predictions_table *table, uid_t uid);

/* The key of a step: the first 16 hexadecimal digits of the digest, or a hash of any other text. */
uint64_t prediction_step(const char *digest);

/* The measured time of a step on a type of device. False: none was measured. */
bool predictions_find(const struct predictions *predictions, uint64_t step, int type,
                      struct step_time *time);
/* Takes in that `steps` steps took `seconds` each on average. `predicted` is the prediction for a
 * step before any was measured; NAN: there was none. */
void predictions_observe(struct predictions *predictions, uint64_t step, int type, double predicted,
                         double seconds, double steps);

/* The factor that corrects predictions for the type, and the standard deviation of log(measured /
 * predicted) that remains. Without measurements: 1, and the deviation that tests/bench/prediction
 * found. */
double predictions_scale(const struct predictions *predictions, int type, double *deviation);
