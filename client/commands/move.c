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
    .summary = "Go on on another device, and only there; `auto`: wherever it is best",
    .details = "The job writes a checkpoint, leaves its device and goes on from it on the other "
               "one, which repeats a\nbatch of the one before first: where their results disagree "
               "the job goes back and stays there.",
    .minimum = 2,
    .maximum = -1,
    .options = move_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
