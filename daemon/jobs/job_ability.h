/* job_ability.h: what a job can do on a device, and what it takes there. */
#pragma once

#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

/* Bytes that the job needs on such a device; 0: not known. */
uint64_t job_memory(const struct job *job, const struct device *device);

/* Why the device cannot run it, whatever its specification allows; NULL: it can. */
const char *job_obstacle(const struct job *job, const struct device *device);

/* Whether its specification lets it run there, were it moved. */
bool job_could_run_on(const struct job *job, const struct device *device);

/* What the prediction for the job on the device rests on, and of a native job its step there. */
struct workload_speed job_speed(const struct job *job, const struct device *device,
                                enum prediction_basis *basis);
