/* profile.c: `trainctl profile`: where the time of a job's run went. */
#include "client/connection/connection.h"
#include "proto/profile_view.h"

enum exit_status command_profile(struct invocation *invocation)
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
