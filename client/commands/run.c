/* run.c: `trainctl run` submits a command line as a command job. */
#include "client/submission/command_spec.h"
#include "client/submission/graph_input.h"
#include "client/submission/snapshot.h"
#include "client/submission/submission.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *specs = json_object_new_array();
    struct json_object *spec = json_object_new_object();
    struct error error = {0};
    enum exit_status status;

    json_object_array_add(specs, spec);
    if (command_spec_make(invocation, spec, &error) < 0) {
        if (error.code)
            complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    status = graph_input_add(invocation, spec);
    if (!status)
        status = snapshot_add(invocation, specs);
    return status ? status : submission_send(invocation, specs);
}

static const struct command_option run_options[] = {
    COMMAND_SPEC_OPTIONS,
    SUBMISSION_OPTIONS,
    {0},
};

const struct command command_run = {
    .name = "run",
    .place = 20,
    .arguments = "-- COMMAND [ARGUMENT…]",
    .summary = "Queue a command line as a job",
    .details = "The command runs in the current directory, without a shell, once a device is "
               "free for it, with the present\nenvironment and PYTHONUNBUFFERED=1.",
    .minimum = 1,
    .maximum = -1,
    .ends_at_argument = true,
    .options = run_options,
    .completion = COMPLETE_FILES,
    .execute = command_execute,
};
