/* device_utilisation.h: how much of a device a job keeps busy, which decides who shares it: of the
 * CPU by the cores that the job has, of a GPU as it was measured. Where the configuration gives a
 * device a number of slots, each job counts as one of them. Everything here runs on the loop. */
#pragma once

#include "daemon/attempts/supervisor.h"
#include "daemon/work/job_table.h"

/* The part of the device, above 0 to 1, that the job keeps busy; `attempt`: its own, or NULL. */
double job_utilisation_on(const struct jobs *jobs, const struct job *job,
                          const struct attempt *attempt, const struct device *device);

/* What the jobs on it may add up to. Cores that jobs declare are theirs; GPUs can be shared beyond
 * what they do, for what jobs keep busy they keep busy by turns. */
double device_utilisation_limit(const struct device *device);

/* The driver says that the GPU was busy for such a part of the last reading's time: divided among
 * the attempts that are there. Where it changes what may join them, a decision follows. */
void device_utilisation_take(struct daemon *daemon, struct device *device, double busy);

/* Steps of the attempt took so long each. True: they tell how long a step takes; false: others on
 * its GPU slow it down, and by how much was taken in here. */
bool device_utilisation_take_steps(struct attempt *attempt, double seconds);
