/* over_memory.h: what happens to a command that takes more of a GPU's memory than it has booked
 * (OverMemory), before the memory that its neighbours have booked runs out. It is never a neighbour
 * that has to leave. */
#pragma once

#include "daemon/jobs/jobs.h"

struct device;

/* Looks at the device, which our jobs and others fill beyond its limit. True: the job that takes
 * too much is leaving it, so nobody else has to. */
bool over_memory_acts(struct jobs *jobs, struct device *device);
