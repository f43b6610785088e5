/* monitor.h: reads the NVIDIA devices on a thread of its own, whose readings arrive on the
 * loop. It sleeps unless it is watching, somebody asks, or the machine's devices change. */
#pragma once

#include "base/error.h"
#include "daemon/devices/nvidia/probe.h"

#include <uv.h>

struct nvidia_monitor;

/* On the loop, for each reading, the first of which is made at once. `reading` stays valid until
 * the next one. */
typedef void (*nvidia_monitor_callback)(void *data, const struct nvidia_reading *reading);

int nvidia_monitor_start(uv_loop_t *loop, const char *library, nvidia_monitor_callback callback,
                         void *data, struct nvidia_monitor **monitor, struct error *error);

/* Reads once a second from now on, or no more: while jobs run on a device, or wait for one. */
void nvidia_monitor_watch(struct nvidia_monitor *monitor, bool watch);

/* Calls `done` on the loop once there is a reading of the last second: at once when there is. */
typedef void (*nvidia_monitor_done)(void *data);
void nvidia_monitor_refresh(struct nvidia_monitor *monitor, nvidia_monitor_done done, void *data);

/* The same with a reading that is begun from now on. */
void nvidia_monitor_look(struct nvidia_monitor *monitor, nvidia_monitor_done done, void *data);

/* Begins one more reading as soon as the one under way is over. */
void nvidia_monitor_read(struct nvidia_monitor *monitor);

/* The last reading; NULL before the first. */
const struct nvidia_reading *nvidia_monitor_reading(const struct nvidia_monitor *monitor);

/* Waits for a reading under way; those who wait for one are answered. Memory goes with the next
 * turn of the loop. NULL is allowed. */
void nvidia_monitor_stop(struct nvidia_monitor *monitor);
