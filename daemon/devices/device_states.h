/* device_states.h: draining and quarantine, which users or errors of a device cause. They belong to
 * the device's id, are stored in the database and survive a restart. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/devices/device.h"

struct device_states;

typedef void (*device_states_done)(void *data, int result, const struct error *error);

/* Reads the stored states; `done` runs on the loop. Free them after the store was closed. */
void device_states_load(struct daemon *daemon, device_states_done done, void *data);
void device_states_free(struct daemon *daemon);

/* Drains or quarantines the device (`health`) for `reason`; `uid` is the user who caused it. With
 * `done`, it takes effect once it is stored, when `done` runs; if storing fails it has no effect.
 * Without `done`, it takes effect at once, even if storing fails. */
void device_state_set(struct daemon *daemon, struct device *device, enum device_health health,
                      const char *reason, uid_t uid, device_states_done done, void *data);
/* Ends draining and quarantine, in the same way. */
void device_state_clear(struct daemon *daemon, struct device *device, device_states_done done,
                        void *data);

/* Sets health and health_reason of the device from its stored state and from whether it is missing.
 * If that changes anything, notifies watches and lets the scheduler decide again. */
void device_health_update(struct daemon *daemon, struct device *device);
