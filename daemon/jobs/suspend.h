/* suspend.h: jobs that give their devices back without ending (attempts/suspension.h). A command
 * that does not save its state itself leaves a GPU so: it is paused, makes room for another job,
 * or moves, and goes on where it was. On the CPU a command can be paused by freezing it.
 *
 * A suspended job is `paused`, or `queued` for a device. Its attempt goes on, and holds memory of
 * the CPU alone. */
#pragma once

#include "daemon/jobs/jobs.h"

struct device;
struct job;

/* Whether the running job can be suspended now. False: `why` gets a sentence. */
bool job_can_be_suspended(const struct jobs *jobs, const struct job *job, char *why, size_t size);

/* Suspends the job, which can be. change->preemption says what follows. */
void job_suspend(struct jobs *jobs, struct job *job, const struct job_change *change);

/* Lets the suspended job go on on the devices. */
void job_go_on(struct jobs *jobs, struct job *job, struct device *const *devices, int count,
               const char *reason, const char *decision);

/* Whether the job can go on on the device after a suspension: where it is or was, or on another
 * GPU of the type. */
bool job_goes_on_on(const struct jobs *jobs, const struct job *job, const struct device *device);

/* Seconds that leaving its device and coming back cost the job, if it leaves by a suspension; else
 * `otherwise`. */
double job_suspension_seconds(const struct jobs *jobs, const struct job *job, double otherwise);

/* The processes of the suspended job have ended. The job is `preempting` after this. */
void job_suspension_ended(struct jobs *jobs, struct job *job);

/* Handles struct attempt_events.suspension. */
void job_suspension_heard(struct attempt *attempt, const struct suspension_news *news);

/* For an attempt of an earlier daemon whose job is queued or paused: it is suspended. `device`:
 * where it was. Its job is queued once the shim has answered. */
void job_suspension_restore(struct jobs *jobs, struct job *job, struct attempt *attempt,
                            const char *device);
