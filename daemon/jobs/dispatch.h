/* dispatch.h: asks for what follows when something has happened: a decision, plans. Whoever changes
 * what may run where calls this, and knows nothing of how decisions and plans are made. */
#pragma once

#include <stdbool.h>

struct jobs;

/* `decide` makes a decision; `plan` plans the jobs that may be planned. */
void dispatch_start(struct jobs *jobs, void (*decide)(struct jobs *jobs),
                    void (*plan)(struct jobs *jobs));
void dispatch_stop(struct jobs *jobs);

/* Something has happened that may change what runs where: a decision follows as soon as the loop
 * has done what is at hand. */
void jobs_dispatch(struct jobs *jobs);
/* Whether one follows. */
bool dispatch_is_due(const struct jobs *jobs);
/* A job may need a plan, or a planning run may be begun. */
void jobs_plan(struct jobs *jobs);
