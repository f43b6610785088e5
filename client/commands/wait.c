/* wait.c: `trainctl wait` waits until the jobs have ended. */
#include "client/connection/connection.h"
#include "client/connection/follow.h"
#include "client/connection/sweep.h"

#include <stdlib.h>

static enum exit_status command_execute(struct invocation *invocation)
{
    struct id_list list = {0};
    enum exit_status status = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count && !status; i++)
        status = sweep_append_ids(invocation, invocation->arguments[i], &list);
    if (!status)
        status =
            follow_jobs(invocation, list.ids, list.count,
                        invocation_flag(invocation, "follow") ? FOLLOW_PROGRESS : FOLLOW_QUIETLY);
    free(list.ids);
    return status;
}

static const struct command_option wait_options[] = {
    {"follow", 'f', NULL, "Show progress meanwhile", COMPLETE_NOTHING},
    {0},
};

const struct command command_wait = {
    .name = "wait",
    .place = 260,
    .arguments = "JOB…",
    .summary = "Wait until jobs have ended",
    .details =
        "The exit status is 0 when all of them are done, 1 when one failed or was "
        "cancelled.\nA trial that its search ended early is no failure. sweep:12\nstands for all jobs of the sweep that begins with job 12.",
    .minimum = 1,
    .maximum = -1,
    .options = wait_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
