/* simulation.h: functions that the drivers of simulated devices share. Such a device exists because
 * a section [Device NAME] defines it. traind-worker computes on the CPU backend, but with the
 * memory and the clock that it is given (engine/backends/simulated/). */
#pragma once

#include "daemon/devices/driver.h"

/* Multiples of this CPU's speeds; `bandwidth` 0: as `speed`. */
struct simulation {
    double speed, bandwidth, launch_seconds;
};

/* For struct device_driver: sets one job at a time, and the memory of the section. */
void simulation_configure(struct device *device, const struct config *config);
/* For struct device_driver: others hold the number of bytes in the file that OutsideFile of the
 * section names. */
bool simulation_measure(struct daemon *daemon, struct device *device);

/* "simulated 2x, memory 4x, 1e-05 s a launch" */
void simulation_describe(const struct simulation *simulation, char *text, size_t size);
/* Adds --device-config and, if its section names one, --calibration. */
void simulation_add_arguments(const struct device *device, const struct simulation *simulation,
                              struct json_object *arguments);
/* Seconds by the simulated clock. */
double simulation_seconds(const struct simulation *simulation, double seconds, double kernels);
