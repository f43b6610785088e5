/* move.c: `trainctl move` moves jobs to another device. */
#include "client/connection/job_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    size_t jobs = invocation->argument_count - 1;

    return job_action_call(invocation, jobs, "Move", NULL, invocation->arguments[jobs]);
}

static const struct command_option move_options[] = {
    JOB_ACTION_OPTION_FORCE,
    {0},
};

const struct command command_move = {
    .name = "move",
    .place = 210,
    .arguments = "JOB… DEVICE",
    .summary = "Move jobs to another device and keep them there; `auto`: let traind choose",
    .details = "The job writes a checkpoint, leaves its device and continues on the other one. "
               "That first repeats a\nbatch of the old device; if their results disagree, the "
               "job goes back and stays there.",
    .minimum = 2,
    .maximum = -1,
    .options = move_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
