/* requeue.c: `trainctl requeue` queues running jobs again from a checkpoint. */
#include "client/connection/job_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    return job_action_call(invocation, invocation->argument_count, "Requeue", NULL, NULL);
}

static const struct command_option requeue_options[] = {
    JOB_ACTION_OPTION_FORCE,
    {0},
};

const struct command command_requeue = {
    .name = "requeue",
    .place = 200,
    .arguments = "JOB…",
    .summary = "Let running jobs write a checkpoint and queue them again",
    .minimum = 1,
    .maximum = -1,
    .options = requeue_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
