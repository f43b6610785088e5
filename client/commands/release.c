/* release.c: `trainctl release` lets held jobs start. */
#include "client/connection/job_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    return job_action_call(invocation, invocation->argument_count, "Release", "ReleaseSweep", NULL);
}

const struct command command_release = {
    .name = "release",
    .place = 170,
    .arguments = "JOB…",
    .summary = "Let jobs start that are held",
    .minimum = 1,
    .maximum = -1,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
