/* simulation.h: functions that the drivers of simulated devices share. Such a device exists because
 * a section [Device NAME] defines it. traind-worker computes on the CPU backend, but with the
 * memory and the clock that it is given (engine/backends/simulated/). */
#pragma once

#include "daemon/devices/driver.h"

/* Multiples of this CPU's speeds, and the seconds that a kernel takes to start. A section that sets
 * none has those of its driver: Speed and Bandwidth multiply them (without Bandwidth, Speed
 * multiplies both), LaunchLatency is added. */
struct simulation {
    double speed, bandwidth, launch_seconds;
};

/* What follows fills in struct device_driver of a kind whose `simulation` is set. */

/* Sets one job at a time, and the memory of the section. */
void simulation_configure(struct device *device, const struct config *config);
/* Others hold the number of bytes in the file that OutsideFile of the section names. */
bool simulation_measure(struct daemon *daemon, struct device *device);
/* "simulated 2x, memory 4x, 1e-05 s a launch" */
void simulation_describe_type(const struct device *device, char *text, size_t size);
/* What --device-config of traind-worker takes. The caller owns it. */
struct json_object *simulation_json(const struct device *device);
/* Adds --device-config and, if its section names one, --calibration. */
void simulation_add_arguments(const struct device *device, uint64_t memory_booked,
                              struct json_object *arguments);
/* Seconds by the simulated clock. */
double simulation_step_seconds(const struct device *device, double seconds, double kernels);
