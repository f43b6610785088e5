/* job_ability.h: whether a job can run on a device, and what it needs there. */
#pragma once

#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

/* Bytes of memory that the job needs on the device; 0: not known. */
uint64_t job_memory(const struct job *job, const struct device *device);

/* Why the device cannot run the job, whatever the job's specification allows; NULL: it can. */
const char *job_obstacle(const struct job *job, const struct device *device);

/* Whether it goes on from what it has saved after it has left its devices. A command that does not
 * say so (preemptible) can only be suspended. */
bool job_saves_state(const struct job *job);

/* Whether its attempt is suspended: it has left its devices and waits to go on. */
bool job_is_suspended(const struct job *job);

/* Whether it was suspended because it held more memory than was booked for it. Jobs that keep to
 * their bookings do not leave for it (over_memory.h). */
bool job_yields(const struct job *job);

/* Whether the job could run on the device if it were moved there: the specification allows it and
 * the device is able to. */
bool job_could_run_on(const struct job *job, const struct device *device);

/* Whether the device is another way to a GPU that the job could have by the first one, and neither
 * device.prefer nor anything else names this one: jobs get a GPU by CUDA before Vulkan. */
bool job_has_better_way(const struct job *job, const struct device *device);

/* The predicted speed of a native job on the device; a command's step_seconds are NAN. `basis`
 * receives what the prediction rests on. */
struct workload_speed job_speed(const struct job *job, const struct device *device,
                                enum workload_basis *basis);
