/* move.h: jobs leave their devices, and where they go instead. */
#pragma once

#include "daemon/jobs/jobs.h"

struct job;

/* The job, which runs, leaves its device: `change` says why. */
void job_preempt(struct jobs *jobs, struct job *job, const struct job_change *change);
/* Its pin in memory alone; NULL: none. */
void job_pin(struct jobs *jobs, struct job *job, const char *device);
/* The device failed under it: it goes elsewhere from now on, and is not pinned there any more, if
 * there is an elsewhere: true. In memory alone: after a restart it may find out anew. */
bool job_avoid(struct jobs *jobs, struct job *job, const struct device *device);
/* It avoids no device any more. */
void job_forgive(struct jobs *jobs, struct job *job);
/* The seconds after which a running job, not movable yet, may be moved; INFINITY: never. */
double job_seconds_to_movable(const struct jobs *jobs, const struct job *job);
