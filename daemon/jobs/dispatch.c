/* dispatch.c: asks for a decision. Whatever changes what may run where calls this, and it knows
 * nothing of how decisions are made: decide.c is called from the loop. */
#include "daemon/jobs/internal.h"

void jobs_dispatch(struct jobs *jobs)
{
    if (jobs->stopping || !jobs->loaded)
        return;
    uv_idle_start(&jobs->decide_soon, jobs->decide);
}
