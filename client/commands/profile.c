/* profile.c: `trainctl profile` shows where the time of a job's run went. */
#include "client/connection/connection.h"
#include "proto/profile_view.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    const char *trace = invocation_option(invocation, "trace");
    struct json_object *parameters, *profile;
    struct error error = {0};
    enum exit_status status =
        connection_job_parameters(invocation, invocation->arguments[0], JOB_IS_READ, &parameters);

    if (!status)
        status = connection_call(invocation, "Profile", parameters, &reply);
    if (status)
        return status;
    profile = json_get(reply.parameters, "profile");
    if (invocation->json)
        json_print(reply.parameters, stdout);
    else
        profile_print(profile, invocation_flag(invocation, "layers"), stdout);
    if (trace && profile_write_trace_file(profile, trace, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    if (trace && !invocation->json)
        printf("trace of the steps: %s\n", trace);
    return EXIT_STATUS_DONE;
}

static const struct command_option profile_options[] = {
    {"layers", 0, NULL, "A row for every layer, not for the five hottest", COMPLETE_NOTHING},
    {"trace", 0, "FILE", "Write the recorded steps for chrome://tracing and ui.perfetto.dev",
     COMPLETE_FILES},
    {0},
};

const struct command command_profile = {
    .name = "profile",
    .place = 130,
    .arguments = "JOB",
    .summary = "Show where the time of a job's run went, by phase, operator and layer",
    .details = "Of a job that was submitted with --profile or train.profile, once its run has "
               "ended.",
    .minimum = 1,
    .maximum = 1,
    .options = profile_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
