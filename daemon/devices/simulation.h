/* simulation.h: what the drivers of simulated devices share. Such a device exists because a section
 * [Device NAME] says so; traind-worker computes with the CPU backend, and with the memory and the
 * clock that it is told (engine/backends/simulated/). */
#pragma once

#include "daemon/devices/driver.h"

/* Times this CPU's; `bandwidth` 0: as `speed`. */
struct simulation {
    double speed, bandwidth, launch_seconds;
};

/* For struct device_driver: one job at a time, the memory of its section. */
void simulation_configure(struct device *device, const struct config *config);
/* Likewise: the number of bytes in the file of its section that OutsideFile names. */
bool simulation_measure(struct daemon *daemon, struct device *device);

/* "simulated 2x, memory 4x, 1e-05 s a launch" */
void simulation_describe(const struct simulation *simulation, char *text, size_t size);
/* --device-config and, if its section names one, --calibration. */
void simulation_add_arguments(const struct device *device, const struct simulation *simulation,
                              struct json_object *arguments);
/* That is how its clock runs. */
double simulation_seconds(const struct simulation *simulation, double seconds, double kernels);
