/* resume.c: `trainctl resume` queues paused jobs again. */
#include "client/connection/job_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    return job_action_call(invocation, invocation->argument_count, "Resume", NULL, NULL);
}

const struct command command_resume = {
    .name = "resume",
    .place = 190,
    .arguments = "JOB…",
    .summary = "Queue paused jobs again",
    .minimum = 1,
    .maximum = -1,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
