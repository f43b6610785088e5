/* wait.c: `trainctl wait`: until the jobs have ended. */
#include "client/connection/connection.h"
#include "client/connection/follow.h"
#include "client/connection/sweep.h"

#include <stdlib.h>

enum exit_status command_wait(struct invocation *invocation)
{
    struct id_list list = {0};
    enum exit_status status = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count && !status; i++)
        status = ids_append(invocation, invocation->arguments[i], &list);
    if (!status)
        status =
            follow_jobs(invocation, list.ids, list.count,
                        invocation_flag(invocation, "follow") ? FOLLOW_PROGRESS : FOLLOW_QUIETLY);
    free(list.ids);
    return status;
}
