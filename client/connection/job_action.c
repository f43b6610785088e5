/* job_action.c: see job_action.h. */
#include "client/connection/job_action.h"

#include "client/connection/connection.h"
#include "client/connection/sweep.h"
#include "client/view/job.h"

enum exit_status job_action_call(struct invocation *invocation, size_t count, const char *method,
                                 const char *sweep_method, const char *device)
{
    enum exit_status worst = EXIT_STATUS_DONE;

    for (size_t i = 0; i < count; i++) {
        CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
        struct json_object *parameters, *job;
        enum exit_status status;
        int64_t sweep;
        bool whole = sweep_named(invocation->arguments[i], &sweep);

        if (whole) {
            parameters = json_object_new_object();
            json_set_int(parameters, "id", sweep);
            status = EXIT_STATUS_DONE;
        } else {
            status = connection_job_parameters(invocation, invocation->arguments[i],
                                               JOB_IS_ACTED_ON, &parameters);
        }
        if (!status && device)
            json_set_string(parameters, "device", device);
        if (!status && invocation_flag(invocation, "force"))
            json_set_bool(parameters, "force", true);
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
            json_print(job, stdout);
        else if (whole)
            sweep_print_sentence(job, stdout);
        else
            job_print_sentence(job, &invocation->output, stdout);
    }
    return worst;
}
