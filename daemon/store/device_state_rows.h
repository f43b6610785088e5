/* device_state_rows.h: the rows of table device_state: who drained which device. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/device_types.h"

#include <sys/types.h>

/* Of the device with that id, for good: drained or quarantined. */
struct device_state_row {
    char id[DEVICE_ID_MAX];
    enum device_health health;
    char reason[DEVICE_REASON_MAX];
};
/* Hands each to `take`, which answers 0 or -ENOMEM. */
int device_states_read(struct store_connection *connection,
                       int (*take)(void *data, const struct device_state_row *row), void *data,
                       struct error *error);
/* Stores it, with who did it and when; DEVICE_HEALTHY: there is no such row any more. */
int device_state_store(struct store_connection *connection, const struct device_state_row *row,
                       double time, uid_t uid, struct error *error);
