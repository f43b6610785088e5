/* device_events.h: the kernel's word, by way of udev, that a device came or went. */
#pragma once

#include <uv.h>

struct device_events;

typedef void (*device_event_callback)(void *data);

/* Calls back on the loop whenever a device of `subsystem` ("pci") changes. NULL where nothing can
 * be heard (no udev, as in most containers). */
struct device_events *device_events_start(uv_loop_t *loop, const char *subsystem,
                                          device_event_callback callback, void *data);
/* The memory goes with the next turn of the loop. NULL is allowed. */
void device_events_stop(struct device_events *events);
