/* device_states.h: what somebody decided about a device, and what its errors led to: draining and
 * quarantine. They belong to the device's id, stand in the database and survive a restart. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/devices/device.h"

struct device_states;

typedef void (*device_states_done)(void *data, int result, const struct error *error);

/* Reads what is stored; `done` runs on the loop. To be freed once the store is closed. */
void device_states_load(struct daemon *daemon, device_states_done done, void *data);
void device_states_free(struct daemon *daemon);

/* Drains or quarantines (`health`) the device, for `reason`; `uid` is who did it. It is in effect
 * once it is stored, when `done` runs; what could not be stored is not. Without `done` it is in
 * effect at once, stored or not. */
void device_state_set(struct daemon *daemon, struct device *device, enum device_health health,
                      const char *reason, uid_t uid, device_states_done done, void *data);
/* Ends draining and quarantine; likewise. */
void device_state_clear(struct daemon *daemon, struct device *device, device_states_done done,
                        void *data);

/* Sets health and health_reason of the device from its state, and from whether it is missing; tells
 * who watches, and has decisions made anew, when that changes anything. */
void device_health_update(struct daemon *daemon, struct device *device);
