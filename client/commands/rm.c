/* rm.c: `trainctl rm` removes ended jobs with everything stored about them. */
#include "client/connection/connection.h"
#include "client/connection/removal.h"

#include <inttypes.h>

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *ids = json_object_new_array();
    bool checkpoints = invocation_flag(invocation, "checkpoints");
    int64_t removed = 0;
    enum exit_status status = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count && !status; i++) {
        int64_t id = 0;

        status = connection_find_job(invocation, invocation->arguments[i], JOB_IS_ACTED_ON, &id);
        if (!status)
            json_object_array_add(ids, json_object_new_int64(id));
    }
    if (!status)
        status = removal_run(invocation, ids, checkpoints, &removed);
    if (status)
        return status;
    if (invocation->json)
        printf("{\"removed\":%" PRId64 "}\n", removed);
    else
        printf("%s of %" PRId64 " job%s removed\n", checkpoints ? "checkpoints" : "everything",
               removed, removed == 1 ? "" : "s");
    return EXIT_STATUS_DONE;
}

static const struct command_option rm_options[] = {
    REMOVAL_OPTION_CHECKPOINTS,
    {0},
};

const struct command command_rm = {
    .name = "rm",
    .place = 230,
    .arguments = "JOB…",
    .summary = "Remove jobs that have ended, with all that is stored of them",
    .details = "Their rows, metrics, checkpoints and output go; numbers of jobs are never given "
               "out again.",
    .minimum = 1,
    .maximum = -1,
    .options = rm_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
