/* hold.c: `trainctl hold` keeps queued jobs from starting. */
#include "client/connection/job_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    return job_action_call(invocation, invocation->argument_count, "Hold", "HoldSweep", NULL);
}

const struct command command_hold = {
    .name = "hold",
    .place = 160,
    .arguments = "JOB…",
    .summary = "Keep queued jobs from starting",
    .minimum = 1,
    .maximum = -1,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
