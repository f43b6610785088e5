/* pause.c: `trainctl pause` takes jobs off their devices until `resume`. */
#include "client/connection/job_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    return job_action_call(invocation, invocation->argument_count, "Pause", NULL, NULL);
}

static const struct command_option pause_options[] = {
    JOB_ACTION_OPTION_FORCE,
    {0},
};

const struct command command_pause = {
    .name = "pause",
    .place = 180,
    .arguments = "JOB…",
    .summary = "Let jobs give their devices up until `resume`, without losing what they have done",
    .details =
        "A job that saves its state writes a checkpoint. If it does not in time (StopGrace), it is "
        "killed and later continues from the previous one.\n"
        "Any other command is suspended: it keeps its processes, and goes on where it was. On a GPU "
        "that takes NVIDIA's driver 570 or later, and room in the machine's memory for what the "
        "command holds there.\nA paused job stays paused when the daemon restarts.",
    .minimum = 1,
    .maximum = -1,
    .options = pause_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
