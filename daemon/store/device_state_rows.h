/* device_state_rows.h: the rows of table device_state: which devices are drained or quarantined, by
 * whom, and why. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/device_types.h"

#include <sys/types.h>

/* The stored health of a device: drained or quarantined. */
struct device_state_row {
    char id[DEVICE_ID_MAX];
    enum device_health health;
    char reason[DEVICE_REASON_MAX];
};
/* Passes each row to `take`, which returns 0 or -ENOMEM. */
int device_states_read(struct store_connection *connection,
                       int (*take)(void *data, const struct device_state_row *row), void *data,
                       struct error *error);
/* Stores the row, with the user who caused it and the time. DEVICE_HEALTHY deletes the device's
 * row. */
int device_state_store(struct store_connection *connection, const struct device_state_row *row,
                       double time, uid_t uid, struct error *error);
