/* early_changes.h: what is asked of a running job while the daemon, which has just started, still
 * looks for its attempt. What the job can do is not known before: so it waits until the attempt is
 * found or has ended, but not longer than ten seconds. So does a drained device for a job that goes
 * on after a suspension: only then can it be suspended once more. */
#pragma once

#include "daemon/jobs/jobs.h"

#include <stdbool.h>
#include <stdint.h>

struct job;

typedef void (*early_change)(struct daemon *daemon, int64_t id, struct job_change change);

/* True: `carry_out` is called later, with a copy of the change. */
bool early_change_waits(struct jobs *jobs, const struct job *job, early_change carry_out,
                        const struct job_change *change);
/* The attempt of the job was found, or is gone, or runs after a suspension. */
void early_changes_found(struct jobs *jobs, int64_t job);

void early_changes_start(struct jobs *jobs);
/* Refuses what still waits, so that no caller does. */
void early_changes_stop(struct jobs *jobs);
void early_changes_free(struct jobs *jobs);
