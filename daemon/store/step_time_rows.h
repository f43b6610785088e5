/* step_time_rows.h: the rows of table step_time: how long a step of a model took on a type of
 * device, as one user's jobs measured it. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/device_types.h"

#include <sys/types.h>

struct step_time_row {
    uid_t uid;
    char step[17]; /* digest that equal steps share, 16 hexadecimal digits */
    char type[DEVICE_TYPE_NAME_MAX];
    double seconds, deviation; /* mean; standard deviation of log(seconds) */
    double steps;              /* how many were measured */
    double predicted;          /* seconds, before any step was measured; 0: unknown */
};

/* Stores the row. It replaces the one of the same user, step and type. */
int step_time_store(struct store_connection *connection, const struct step_time_row *row,
                    struct error *error);

/* Passes the rows that changed last to `take`, at most `limit` in total and `limit_of_user` of each
 * user. `take` returns 0 or a negative errno. */
int step_times_read(struct store_connection *connection, int64_t limit, int64_t limit_of_user,
                    int (*take)(void *data, const struct step_time_row *row), void *data,
                    struct error *error);
