/* dispatch.h: makes decisions and planning runs due. Code that changes what may run where calls
 * these functions and need not know how decisions and plans are made. */
#pragma once

#include <stdbool.h>

struct jobs;

/* `decide` makes a decision, `plan` begins the planning runs that may begin. */
void dispatch_start(struct jobs *jobs, void (*decide)(struct jobs *jobs),
                    void (*plan)(struct jobs *jobs));
void dispatch_stop(struct jobs *jobs);

/* Something has happened that may change what runs where. A decision follows as soon as the loop
 * has handled its pending events. */
void jobs_dispatch(struct jobs *jobs);
/* Whether a decision is due. */
bool dispatch_is_due(const struct jobs *jobs);
/* Call this when a job may need a plan, or when a place for a planning run may be free. */
void jobs_plan(struct jobs *jobs);
