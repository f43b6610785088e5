/* start.h: starts a job on the devices that a decision gave it. */
#pragma once

#include "daemon/attempts/supervisor.h"

struct device;
struct job;
struct jobs;

void job_start_open(struct jobs *jobs);

/* What follows the news of an attempt that runs the job. */
extern const struct attempt_events job_running_events;

/* A fresh attempt, bound to its job; it is neither started nor looked for yet. */
struct attempt *job_bind_attempt(struct jobs *jobs, struct job *job, int64_t number,
                                 const struct attempt_events *events);
/* Starts the job, whose details are there, on the devices. `decision` is JSON, for the store. */
void job_start(struct jobs *jobs, struct job *job, struct device *const *devices, int count,
               const char *reason, const char *decision);
