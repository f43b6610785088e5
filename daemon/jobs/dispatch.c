/* dispatch.c: asks for what follows when something has happened: a decision, plans. Whoever changes
 * what may run where calls these, and knows nothing of how decisions and plans are made. */
#include "daemon/jobs/internal.h"

void jobs_dispatch(struct jobs *jobs)
{
    if (jobs->stopping || !jobs->loaded)
        return;
    uv_idle_start(&jobs->decide_soon, jobs->news.decide);
}

void jobs_plan(struct jobs *jobs)
{
    jobs->news.plan(jobs);
}
