/* device_view.h: a device as io.traind shows it. */
#pragma once

#include "daemon/context/context.h"
#include "daemon/devices/device.h"
#include "daemon/devices/probe_processes.h"
#include "daemon/server/server.h"
#include "proto/json.h"

enum { DEVICE_PROCESSES_MAX = 8 };

/* The processes that hold most of the machine's memory; found on the thread pool. */
struct device_processes {
    struct process_use largest[DEVICE_PROCESSES_MAX];
    size_t count;
};

/* A Device of io.traind as the caller may see it, from memory alone; what was measured is as old as
 * the last measurement. `processes`: who may hold memory of the CPU, or NULL. */
struct json_object *device_describe(const struct call *call, const struct device *device,
                                    const struct device_processes *processes);
