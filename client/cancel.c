/* cancel.c: `trainctl cancel`, `hold` and `release`: one call for each job named. */
#include "client/connection.h"
#include "client/job_view.h"
#include "client/sweep.h"

/* Calls `method` for every argument, `sweep_method` (NULL: none) for sweeps; one that is refused
 * keeps nobody else from it. */
static enum exit_status each_job_call(struct invocation *invocation, const char *method,
                                      const char *sweep_method)
{
    enum exit_status worst = EXIT_STATUS_DONE;

    for (size_t i = 0; i < invocation->argument_count; i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters, *job;
        enum exit_status status;
        int64_t sweep;
        bool whole = sweep_method && sweep_named(invocation->arguments[i], &sweep);

        if (whole) {
            parameters = json_object_new_object();
            json_set_int(parameters, "id", sweep);
            status = EXIT_STATUS_DONE;
        } else {
            status = connection_job_parameters(invocation, invocation->arguments[i], &parameters);
        }
        if (!status)
            status = connection_call(invocation, whole ? sweep_method : method, parameters, &reply);
        if (status == EXIT_STATUS_UNREACHABLE)
            return status;
        if (status) {
            worst = status;
            continue;
        }
        job = json_get(reply.parameters, whole ? "sweep" : "job");
        if (invocation->json)
            puts(json_text(job, NULL));
        else if (whole)
            sweep_print_sentence(job, stdout);
        else
            job_print_sentence(job, &invocation->output, stdout);
    }
    return worst;
}

enum exit_status command_cancel(struct invocation *invocation)
{
    return each_job_call(invocation, "Cancel", "CancelSweep");
}

enum exit_status command_hold(struct invocation *invocation)
{
    return each_job_call(invocation, "Hold", NULL);
}

enum exit_status command_release(struct invocation *invocation)
{
    return each_job_call(invocation, "Release", NULL);
}
