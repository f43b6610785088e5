/* start.h: starts a job on the devices that a decision chose for it. */
#pragma once

#include "daemon/attempts/attempt.h"

struct device;
struct job;
struct jobs;

/* The handlers for the events of an attempt that runs a job. */
extern const struct attempt_events job_running_events;

/* Makes an attempt and binds it to its job; the caller then launches it or attaches to it. */
struct attempt *job_bind_attempt(struct jobs *jobs, struct job *job, int64_t number,
                                 const struct attempt_events *events);
/* Starts the job, whose details must be in memory, on the devices. `decision` is the JSON text that
 * the store keeps. */
void job_start(struct jobs *jobs, struct job *job, struct device *const *devices, int count,
               const char *reason, const char *decision);
/* The changes of the job's state that its launch has waited for are on disk. */
void job_launch(struct jobs *jobs, struct job *job);
