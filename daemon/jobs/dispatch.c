/* dispatch.c: see dispatch.h. */
#include "daemon/jobs/dispatch.h"

#include "base/memory.h"
#include "daemon/jobs/parts.h"

#include <stdlib.h>

struct dispatch {
    uv_idle_t soon; /* active while a decision is due */
    void (*decide)(struct jobs *jobs);
    void (*plan)(struct jobs *jobs);
};

void dispatch_start(struct jobs *jobs, void (*decide)(struct jobs *jobs),
                    void (*plan)(struct jobs *jobs))
{
    jobs->dispatch = memory_zero(sizeof *jobs->dispatch);
    uv_idle_init(jobs->daemon->loop, &jobs->dispatch->soon);
    jobs->dispatch->soon.data = jobs;
    jobs->dispatch->decide = decide;
    jobs->dispatch->plan = plan;
}

void dispatch_stop(struct jobs *jobs)
{
    if (jobs->dispatch)
        uv_close((uv_handle_t *)&jobs->dispatch->soon, NULL);
}

static void on_soon(uv_idle_t *idle)
{
    struct jobs *jobs = idle->data;

    uv_idle_stop(idle);
    if (!jobs->stopping)
        jobs->dispatch->decide(jobs);
}

void jobs_dispatch(struct jobs *jobs)
{
    if (jobs->stopping || !jobs->loaded)
        return;
    uv_idle_start(&jobs->dispatch->soon, on_soon);
}

bool dispatch_is_due(const struct jobs *jobs)
{
    return uv_is_active((const uv_handle_t *)&jobs->dispatch->soon);
}

void jobs_plan(struct jobs *jobs)
{
    jobs->dispatch->plan(jobs);
}
