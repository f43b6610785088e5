/* device_events.h: notifications of udev that a device came or went. */
#pragma once

#include <uv.h>

struct device_events;

typedef void (*device_event_callback)(void *data);

/* Calls back on the loop whenever a device of `subsystem` ("pci") changes. NULL if there are no
 * notifications (no udev, as in most containers). */
struct device_events *device_events_start(uv_loop_t *loop, const char *subsystem,
                                          device_event_callback callback, void *data);
/* Stops the notifications. The next turn of the loop frees the memory. NULL is allowed. */
void device_events_stop(struct device_events *events);
