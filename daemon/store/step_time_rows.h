/* step_time_rows.h: the rows of table step_time: how long a step of a model took on a type of
 * device, as the jobs of one user measured it. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/device_types.h"

#include <sys/types.h>

struct step_time_row {
    uid_t uid;
    char step[17]; /* what makes steps alike, 16 hexadecimal digits */
    char type[DEVICE_TYPE_NAME_MAX];
    double seconds, deviation; /* mean; standard deviation of log(seconds) */
    double steps;              /* measured */
    double predicted;          /* seconds, before any were; 0: not known */
};

/* Stores it in place of the one of this user, step and type. */
int step_time_store(struct store_connection *connection, const struct step_time_row *row,
                    struct error *error);

/* Hands the rows that changed last to `take`, which answers 0 or negative errno: `limit` of them at
 * most, and at most `limit_of_user` of each user. */
int step_times_read(struct store_connection *connection, int64_t limit, int64_t limit_of_user,
                    int (*take)(void *data, const struct step_time_row *row), void *data,
                    struct error *error);
