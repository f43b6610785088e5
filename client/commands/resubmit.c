/* resubmit.c: `trainctl resubmit` submits new jobs with the specifications of earlier ones. */
#include "client/connection/connection.h"
#include "client/submission/graph_input.h"
#include "client/submission/snapshot.h"
#include "client/submission/spec_input.h"
#include "client/submission/submission.h"
#include "proto/job_spec.h"

#include <inttypes.h>

/* Fetches the specification as it was submitted, without the jobs that it waited for. */
static enum exit_status spec_fetch(struct invocation *invocation, const char *name,
                                   struct json_object **spec)
{
    static const char *const dropped[] = {"after", "at", "put_first", "hold"}; /* for that job */
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters, *stored;
    enum exit_status status =
        connection_job_parameters(invocation, name, JOB_IS_ACTED_ON, &parameters);

    if (!status)
        status = connection_call(invocation, "Show", parameters, &reply);
    if (status)
        return status;
    stored = json_get(reply.parameters, "spec");
    if (!stored || json_object_object_length(stored) == 0) {
        complain("job %" PRId64 " is somebody else's: its specification is not shown",
                 json_get_int(json_get(reply.parameters, "job"), "id", 0));
        return EXIT_STATUS_FAILED;
    }
    /* defaults may depend on the new value */
    if (invocation_option(invocation, "set") || spec_options_are_given(invocation))
        job_spec_drop_defaults(stored);
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        json_object_object_del(stored, dropped[i]);
    *spec = json_object_get(stored);
    return EXIT_STATUS_DONE;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *specs = json_object_new_array();
    struct error error = {0};

    for (size_t i = 0; i < invocation->argument_count; i++) {
        struct json_object *spec = NULL;
        enum exit_status status = spec_fetch(invocation, invocation->arguments[i], &spec);

        if (status)
            return status;
        json_object_array_add(specs, spec);
        if (spec_options_apply(invocation, spec))
            return EXIT_STATUS_USAGE;
        if (spec_input_complete(invocation, spec, &error) < 0) {
            complain("%s", error.text);
            return EXIT_STATUS_USAGE;
        }
        status = graph_input_add(invocation, spec);
        if (status)
            return status;
    }
    if (snapshot_add(invocation, specs))
        return EXIT_STATUS_FAILED;
    return submission_send(invocation, specs);
}

static const struct command_option resubmit_options[] = {
    SUBMISSION_OPTIONS,
    SPEC_INPUT_OPTION_PROFILE,
    {0},
};

const struct command command_resubmit = {
    .name = "resubmit",
    .place = 30,
    .arguments = "JOB…",
    .summary = "Queue jobs again, as new jobs with the same specifications",
    .details = "--set changes keys of all of them. The new jobs do not wait for other jobs, a time "
               "or a release, unless --after, --at or --hold says so.",
    .minimum = 1,
    .maximum = -1,
    .options = resubmit_options,
    .completion = COMPLETE_JOBS,
    .execute = command_execute,
};
