/* device_view.h: describes a device as type Device of io.traind. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/devices/device.h"
#include "daemon/devices/probe_processes.h"
#include "daemon/server/server.h"
#include "proto/json.h"

enum { DEVICE_PROCESSES_MAX = 8 };

/* The processes that hold the most memory of the machine; the thread pool finds them. */
struct device_processes {
    struct process_use largest[DEVICE_PROCESSES_MAX];
    size_t count;
};

/* The device as the caller may see it. Reads only memory, so measured values are those of the last
 * measurement. `processes`: the processes that may hold memory of the CPU, or NULL. */
struct json_object *device_describe(const struct call *call, const struct device *device,
                                    const struct device_processes *processes);
