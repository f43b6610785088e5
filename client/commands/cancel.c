/* cancel.c: `trainctl cancel`, `hold`, `release`, `pause`, `resume`, `requeue` and `move`: one call
 * for each job named. */
#include "client/connection/connection.h"
#include "client/connection/sweep.h"
#include "client/view/job.h"

/* Calls `method` for the first `count` arguments, with `device` unless it is NULL, `sweep_method`
 * (NULL: none) for sweeps; one that is refused keeps nobody else from it. */
static enum exit_status some_jobs_call(struct invocation *invocation, size_t count,
                                       const char *method, const char *sweep_method,
                                       const char *device)
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

static enum exit_status each_job_call(struct invocation *invocation, const char *method,
                                      const char *sweep_method)
{
    return some_jobs_call(invocation, invocation->argument_count, method, sweep_method, NULL);
}

enum exit_status command_cancel(struct invocation *invocation)
{
    return each_job_call(invocation, "Cancel", "CancelSweep");
}

enum exit_status command_hold(struct invocation *invocation)
{
    return each_job_call(invocation, "Hold", "HoldSweep");
}

enum exit_status command_release(struct invocation *invocation)
{
    return each_job_call(invocation, "Release", "ReleaseSweep");
}

enum exit_status command_pause(struct invocation *invocation)
{
    return each_job_call(invocation, "Pause", NULL);
}

enum exit_status command_resume(struct invocation *invocation)
{
    return each_job_call(invocation, "Resume", NULL);
}

enum exit_status command_requeue(struct invocation *invocation)
{
    return each_job_call(invocation, "Requeue", NULL);
}

enum exit_status command_move(struct invocation *invocation)
{
    size_t jobs = invocation->argument_count - 1;

    return some_jobs_call(invocation, jobs, "Move", NULL, invocation->arguments[jobs]);
}
