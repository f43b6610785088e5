/* move.h: makes running jobs leave their devices, and says where they may go instead. */
#pragma once

#include "daemon/jobs/jobs.h"

struct job;

/* Makes a running job leave its device; `change` says why. */
void job_preempt(struct jobs *jobs, struct job *job, const struct job_change *change);
/* Pins the job to a device, only in memory; NULL removes the pin. */
void job_pin(struct jobs *jobs, struct job *job, const char *device);
/* The device failed while the job ran there: from now on the job avoids it, and is no longer pinned
 * to it. Only in memory, so a restart of the daemon forgets it. False, and nothing changes: no
 * other device could run the job. */
bool job_avoid(struct jobs *jobs, struct job *job, const struct device *device);
/* Forgets which devices the job avoids. */
void job_forgive(struct jobs *jobs, struct job *job);
/* The seconds until a running job may be moved; 0: it may be now; INFINITY: never. */
double job_seconds_to_movable(const struct jobs *jobs, const struct job *job);

/* Whether the running job can leave its devices without losing what it has done: it saves its
 * state, or can be suspended. */
bool job_can_make_room(const struct jobs *jobs, const struct job *job);
