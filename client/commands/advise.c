/* advise.c: `trainctl advise` measures a job here, with its settings changed one by one, and says
 * what would make it faster. */
#include "client/connection/connection.h"
#include "client/submission/presets.h"
#include "client/submission/spec_input.h"
#include "client/submission/worker_run.h"
#include "proto/advice_view.h"
#include "proto/device_host.h"
#include "proto/job_spec.h"

#include <string.h>
#include <unistd.h>

static bool is_preset(const char *name)
{
    JSON_AUTO struct json_object *list = presets_list(NULL);

    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (strcmp(json_get_string(json_object_array_get_idx(list, i), "name", ""), name) == 0)
            return true;
    return false;
}

/* Whether the argument names a specification, and not a job. What looks like a file is one, so that
 * a wrong path is not taken for the name of a job. */
static bool names_spec(const char *argument)
{
    const char *end = strrchr(argument, '.');

    return strcmp(argument, "-") == 0 || strpbrk(argument, "/+") ||
           (end && strcmp(end, ".json") == 0) || access(argument, F_OK) == 0 || is_preset(argument);
}

/* The specification of a job, and the device that it ran on ("": on none yet). */
static enum exit_status job_read(struct invocation *invocation, struct json_object **spec,
                                 struct json_object **normalised, char *device, size_t size)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    struct json_object *parameters, *shown;
    struct error error = {0};
    enum exit_status status = connection_job_parameters(invocation, invocation->arguments[0],
                                                        JOB_IS_ACTED_ON, &parameters);

    if (!status)
        status = connection_call(invocation, "Show", parameters, &reply);
    if (status)
        return status;
    shown = json_get(reply.parameters, "spec");
    *spec = json_object_get(shown);
    snprintf(device, size, "%s", json_get_string(json_get(reply.parameters, "job"), "device", ""));
    if (spec_input_complete(invocation, *spec, &error) < 0 ||
        job_spec_normalise(*spec, normalised, NULL, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    return EXIT_STATUS_DONE;
}

/* The device that is meant: that of --device, else the one that the specification wants, else that
 * on which the job ran, else the processor. */
static const char *device_of(const struct invocation *invocation, struct json_object *normalised,
                             const char *ran_on)
{
    struct json_object *device = json_get(normalised, "device");
    const char *prefer = json_get_string(device, "prefer", "auto");

    if (invocation_option(invocation, "device"))
        return invocation_option(invocation, "device");
    if (json_get_string(device, "force", NULL))
        return json_get_string(device, "force", NULL);
    if (strcmp(prefer, "auto") != 0)
        return prefer;
    return *ran_on ? ran_on : DEVICE_HOST;
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *spec = NULL, *normalised = NULL, *report = NULL;
    const char *arguments[] = {"advise", WORKER_RUN_SPEC, "--json", "--device", NULL, NULL};
    struct error error = {0};
    char ran_on[64] = "";
    enum exit_status status = names_spec(invocation->arguments[0])
                                  ? spec_input_read_one(invocation, false, &spec, &normalised)
                                  : job_read(invocation, &spec, &normalised, ran_on, sizeof ran_on);

    if (status)
        return status;
    if (job_spec_is_command(normalised)) {
        complain("a command has no settings that traind knows; `trainctl usage` tells what jobs "
                 "use");
        return EXIT_STATUS_USAGE;
    }
    arguments[4] = device_of(invocation, normalised, ran_on);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "measuring on %s; this takes a minute, or a few beside other work\n",
                arguments[4]);
    if (worker_run(arguments, spec, &report, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_FAILED;
    }
    if (invocation->json)
        json_print(report, stdout);
    else
        advice_print(report, stdout);
    return EXIT_STATUS_DONE;
}

static const struct command_option advise_options[] = {
    {"device", 0, "NAME", "Measure on this device, such as cuda:0", COMPLETE_DEVICES},
    SPEC_INPUT_OPTION_SET,
    SPEC_INPUT_OPTION_ENV,
    {0},
};

const struct command command_advise = {
    .name = "advise",
    .place = 57,
    .arguments = "JOB|SPEC",
    .summary = "Say what would make a job train faster, by measuring",
    .details =
        "Trains the job here for seconds, as it is and with its settings changed one by one (batch, "
        "precision,\nthreads, loader threads, recomputation and others), and measures an evaluation "
        "and a checkpoint. Prints\nwhere the time goes, and which changes pay on this device, with "
        "the gain, the best first, and what they\nchange in the result. Nothing is submitted, and "
        "no device is booked: measure where nothing else runs.\nThe device is that of --device, "
        "else the one that SPEC forces or prefers, else that on which JOB ran, else\nthe CPU. "
        "`trainctl lr-find` looks for the learning rate of another batch.",
    .minimum = 1,
    .maximum = 1,
    .options = advise_options,
    .completion = COMPLETE_SPECS,
    .execute = command_execute,
};
