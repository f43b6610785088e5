/* wait.c: `trainctl wait`: until the jobs have ended. */
#include "client/connection.h"
#include "client/follow.h"

enum exit_status command_wait(struct invocation *invocation)
{
    AUTO_FREE int64_t *ids = calloc(invocation->argument_count, sizeof *ids);

    if (!ids) {
        complain("not enough memory");
        return EXIT_STATUS_FAILED;
    }
    for (size_t i = 0; i < invocation->argument_count; i++) {
        enum exit_status status =
            connection_find_job(invocation, invocation->arguments[i], &ids[i]);

        if (status)
            return status;
    }
    return follow_jobs(invocation, ids, invocation->argument_count,
                       invocation_flag(invocation, "follow") ? FOLLOW_PROGRESS : FOLLOW_QUIETLY);
}
