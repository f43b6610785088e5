/* cancel.c: `trainctl cancel`, `hold` and `release`: one call for each job named. */
#include "client/connection.h"
#include "client/job_view.h"

/* Calls `method` for every argument; one that is refused keeps nobody else from it. */
static enum exit_status each_job_call(struct invocation *invocation, const char *method)
{
    enum exit_status worst = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count; i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters, *job;
        enum exit_status status =
            connection_job_parameters(invocation, invocation->arguments[i], &parameters);

        if (!status)
            status = connection_call(invocation, method, parameters, &reply);
        if (status == EXIT_STATUS_UNREACHABLE)
            return status;
        if (status) {
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

enum exit_status command_cancel(struct invocation *invocation)
{
    return each_job_call(invocation, "Cancel");
}

enum exit_status command_hold(struct invocation *invocation)
{
    return each_job_call(invocation, "Hold");
}

enum exit_status command_release(struct invocation *invocation)
{
    return each_job_call(invocation, "Release");
}
