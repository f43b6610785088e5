/* monitor.h: reads the NVIDIA devices on a thread of its own and delivers the readings on the loop.
 * The thread sleeps unless it watches, a reading is requested, or the machine's devices change. */
#pragma once

#include "base/error.h"
#include "daemon/devices/nvidia/probe.h"

#include <uv.h>

struct nvidia_monitor;

/* Called on the loop for each reading. The first reading is made at once. `reading` stays valid
 * until the next one. */
typedef void (*nvidia_monitor_callback)(void *data, const struct nvidia_reading *reading);

/* `root`: see nvidia_power_read(). */
int nvidia_monitor_start(uv_loop_t *loop, const char *library, const char *root,
                         nvidia_monitor_callback callback, void *data,
                         struct nvidia_monitor **monitor, struct error *error);

/* Starts or stops one reading per second, for the time in which jobs run on a device or wait for
 * one. */
void nvidia_monitor_watch(struct nvidia_monitor *monitor, bool watch);

/* Calls `done` on the loop once there is a reading of the last second, which may be at once. It
 * keeps no GPU awake, so the reading may tell what an older one said (`rests`). */
typedef void (*nvidia_monitor_done)(void *data);
void nvidia_monitor_refresh(struct nvidia_monitor *monitor, nvidia_monitor_done done, void *data);

/* Calls `done` on the loop after a reading that begins now or later. Without `wakes`, and while all
 * GPUs sleep, that reading tells what an older one said. */
void nvidia_monitor_look(struct nvidia_monitor *monitor, bool wakes, nvidia_monitor_done done,
                         void *data);

/* Requests one more reading, which begins as soon as the current one ends. */
void nvidia_monitor_read(struct nvidia_monitor *monitor);

/* The last reading; NULL before the first. */
const struct nvidia_reading *nvidia_monitor_reading(const struct nvidia_monitor *monitor);

/* Waits for the current reading, calls the waiting `done`s, and stops. The next turn of the loop
 * frees the memory. NULL is allowed. */
void nvidia_monitor_stop(struct nvidia_monitor *monitor);
