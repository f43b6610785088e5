/* strays.h: jobs whose processes hold memory of a device that they were not given. */
#pragma once

#include "daemon/devices/device.h"
#include "daemon/devices/probe_processes.h"

/* Looks for such jobs among the processes that hold memory of the device, and tells the listener of
 * each. */
void strays_find(struct daemon *daemon, struct device *device, const struct process_use *processes,
                 size_t count);
