/* run.c: `trainctl run` submits a command line as a command job. */
#include "client/submission/graph_input.h"
#include "client/submission/snapshot.h"
#include "client/submission/spec_input.h"
#include "client/submission/spec_options.h"
#include "client/submission/submission.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>

/* The member object of that name, created if it is missing. */
static struct json_object *section_of(struct json_object *spec, const char *name)
{
    struct json_object *section = name ? json_get(spec, name) : spec;

    if (!section) {
        section = json_object_new_object();
        json_set(spec, name, section);
    }
    return section;
}

/* Applies --device cuda:0,cpu: the devices that the job may run on, by name, id or kind. */
static void add_devices(const struct invocation *invocation, struct json_object *spec)
{
    const char *argument;
    struct json_object *allow = NULL;

    for (size_t at = 0; (argument = invocation_option_next(invocation, "device", &at));) {
        AUTO_FREE char *copy = strdup(argument);
        char *rest = NULL;

        if (!allow)
            json_set(section_of(spec, "device"), "allow", allow = json_object_new_array());
        for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
            json_object_array_add(allow, json_object_new_string(word));
    }
}

/* Applies --gpu and --gpus N: the job runs on that many GPUs and on no other device. */
static int add_gpus(const struct invocation *invocation, struct json_object *spec)
{
    int64_t count = 1;

    if (!invocation_flag(invocation, "gpu") && !invocation_option(invocation, "gpus"))
        return 0;
    if (invocation_option(invocation, "gpus") &&
        invocation_option_integer(invocation, "gpus", 1, &count))
        return -EINVAL;
    json_set_string(section_of(spec, "device"), "force", "gpu");
    if (count > 1)
        json_set_int(section_of(spec, "resources"), "devices", count);
    return 0;
}

static int add_keys(const struct invocation *invocation, struct json_object *spec)
{
    for (const struct spec_option *o = spec_options; o->option; o++) {
        const char *text = invocation_option(invocation, o->option);
        int64_t value = 0;

        if (!text)
            continue;
        if (!o->integer)
            json_set_string(section_of(spec, o->section), o->key, text);
        else if (invocation_option_integer(invocation, o->option, o->minimum, &value))
            return -EINVAL;
        else
            json_set_int(section_of(spec, o->section), o->key, value);
    }
    if (invocation_flag(invocation, "preemptible"))
        json_set_bool(spec, "preemptible", true);
    add_devices(invocation, spec);
    return add_gpus(invocation, spec);
}

static int spec_from_command(const struct invocation *invocation, struct json_object *spec,
                             struct error *error)
{
    struct json_object *command = json_object_new_array();
    const char *name = invocation_option(invocation, "name");
    const char *directory = invocation_option(invocation, "directory");

    json_set_string(spec, "name", name ? name : basename(invocation->arguments[0]));
    for (size_t i = 0; i < invocation->argument_count; i++)
        json_object_array_add(command, json_object_new_string(invocation->arguments[i]));
    json_set(spec, "command", command);
    if (directory) {
        AUTO_FREE char *absolute = realpath(directory, NULL);

        if (!absolute)
            return error_set_errno(error, -errno, "--directory=%s", directory);
        json_set_string(spec, "directory", absolute);
    }
    if (add_keys(invocation, spec) < 0)
        return -EINVAL; /* already printed */
    if (!invocation_flag(invocation, "no-env")) {
        int result = spec_input_add_shell_environment(spec, error);

        if (result < 0)
            return result;
    }
    return spec_input_complete(invocation, spec, error);
}

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *specs = json_object_new_array();
    struct json_object *spec = json_object_new_object();
    struct error error = {0};
    enum exit_status status;

    json_object_array_add(specs, spec);
    if (spec_from_command(invocation, spec, &error) < 0) {
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
    {"name", 'n', "NAME", "Name of the job (default: the command's)", COMPLETE_NOTHING},
    {"directory", 'C', "PATH", "Directory to run in (default: the current one)", COMPLETE_FILES},
    {"device", 'd', "NAME[,NAME…]",
     "Devices that it may run on: cuda:0, cpu, gpu, any, …; repeatable (default: DefaultDevice)",
     COMPLETE_DEVICES},
    {"gpu", 0, NULL, "On a GPU (short for --gpus 1)", COMPLETE_NOTHING},
    {"gpus", 0, "N", "On N GPUs at once, of one type", COMPLETE_NOTHING},
    {"devices", 0, "N", "How many of them it uses at once (default: 1)", COMPLETE_NOTHING},
    {"cores", 'c', "N", "CPU cores that it uses (default: its share of the machine's)",
     COMPLETE_NOTHING},
    {"memory", 'm', "SIZE", "Memory that it may use, such as 4G (default: learnt)",
     COMPLETE_NOTHING},
    {"device-memory", 0, "SIZE", "Memory of the device that it may use (default: learnt)",
     COMPLETE_NOTHING},
    {"time", 't', "DURATION", "How long it will run, about, such as \"2 h\" (default: learnt)",
     COMPLETE_NOTHING},
    {"time-limit", 0, "DURATION", "Longest run of one attempt", COMPLETE_NOTHING},
    {"priority", 'p', "N", "Higher ones start first (default: 0)", COMPLETE_NOTHING},
    {"preemptible", 0, NULL, "It saves its state at SIGTERM and goes on from there",
     COMPLETE_NOTHING},
    {"checkpoint-signal", 0, "SIGNAL", "… at this signal, such as SIGUSR1", COMPLETE_NOTHING},
    {"checkpoint-grace", 0, "DURATION", "… within this time", COMPLETE_NOTHING},
    {"no-env", 0, NULL,
     "Pass only PATH, LANG, VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH, LD_LIBRARY_PATH",
     COMPLETE_NOTHING},
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
