/* cancel.c: `trainctl cancel` ends jobs in any state. */
#include "client/connection/job_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    return job_action_call(invocation, invocation->argument_count, "Cancel", "CancelSweep", NULL);
}

const struct command command_cancel = {
    .name = "cancel",
    .place = 150,
    .arguments = "JOB…",
    .summary = "End jobs in any state",
    .details = "sweep:12 stands for all jobs of the sweep that begins with job 12.",
    .minimum = 1,
    .maximum = -1,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
