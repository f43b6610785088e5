/* cancel.c: `trainctl cancel`: ends jobs in whatever state they are. */
#include "client/connection.h"
#include "client/job_view.h"

enum exit_status command_cancel(struct invocation *invocation)
{
    enum exit_status worst = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count; i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters, *job;
        enum exit_status status =
            connection_job_parameters(invocation, invocation->arguments[i], &parameters);

        if (!status)
            status = connection_call(invocation, "Cancel", parameters, &reply);
        if (status == EXIT_STATUS_UNREACHABLE)
            return status;
        if (status) { /* the others are cancelled all the same */
            worst = status;
            continue;
        }
        job = json_get(reply.parameters, "job");
        if (invocation->json)
            puts(json_text(job, NULL));
        else
            job_print_sentence(job, &invocation->output, stdout);
    }
    return worst;
}
