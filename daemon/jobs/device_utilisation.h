/* device_utilisation.h: estimates the part of a device that each job keeps busy, which decides
 * which jobs may share it. On the CPU this follows from the job's cores, on a GPU from
 * measurements. If the configuration gives a device a number of slots, each job takes one slot.
 * Everything here runs on the loop. */
#pragma once

#include "daemon/attempts/attempt.h"
#include "daemon/work/job_table.h"

/* The part of the device that the job keeps busy, in (0, 1]. `attempt` is the job's attempt, or
 * NULL. */
double job_utilisation_on(const struct jobs *jobs, const struct job *job,
                          const struct attempt *attempt, const struct device *device);

/* The limit for the sum of utilisations on the device. It is 1 for the CPU, because a core that a
 * job declares is its own. A GPU's limit is higher: its jobs take turns, so they may ask for more
 * than the GPU can do. */
double device_utilisation_limit(const struct device *device);

/* Takes in a reading of the driver: the part of the time since the last reading in which the GPU
 * was busy. The part is divided among the attempts on the GPU. If it has changed enough to matter
 * for sharing, a decision becomes due. */
void device_utilisation_take(struct daemon *daemon, struct device *device, double busy);

/* Takes in how many seconds each of the attempt's latest steps took. True: this is how long the
 * job's step takes. False: other jobs on the GPU slowed the steps down; their influence has been
 * recorded here. */
bool device_utilisation_take_steps(struct attempt *attempt, double seconds);
