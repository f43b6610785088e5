/* run.c: `trainctl run`: a command line becomes a command job. */
#include "client/submission/graph_input.h"
#include "client/submission/spec_input.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>

/* Options that are a key of the specification; the daemon checks what they say. */
static const struct {
    const char *option, *section, *key; /* without a section the key stands at the top */
} text_options[] = {
    {"memory", "resources", "memory"},
    {"device-memory", "resources", "device_memory"},
    {"time", "resources", "time"},
    {"time-limit", NULL, "time_limit"},
    {"checkpoint-signal", NULL, "checkpoint_signal"},
    {"checkpoint-grace", NULL, "checkpoint_grace"},
};
static const struct {
    const char *option, *section, *key;
    int64_t minimum;
} integer_options[] = {
    {"cores", "resources", "cores", 1},
    {"devices", "resources", "devices", 1},
    {"priority", NULL, "priority", -1000},
};

/* The object that holds the key, made where it is missing. */
static struct json_object *section_of(struct json_object *spec, const char *name)
{
    struct json_object *section = name ? json_get(spec, name) : spec;

    if (!section) {
        section = json_object_new_object();
        json_set(spec, name, section);
    }
    return section;
}

/* --device cuda:0,cpu: what it may run on, by name, id or kind. */
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

/* --gpu, --gpus N: so many GPUs and nothing else. */
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
    for (size_t i = 0; i < sizeof text_options / sizeof *text_options; i++) {
        const char *text = invocation_option(invocation, text_options[i].option);

        if (text)
            json_set_string(section_of(spec, text_options[i].section), text_options[i].key, text);
    }
    for (size_t i = 0; i < sizeof integer_options / sizeof *integer_options; i++) {
        int64_t value = 0;

        if (!invocation_option(invocation, integer_options[i].option))
            continue;
        if (invocation_option_integer(invocation, integer_options[i].option,
                                      integer_options[i].minimum, &value))
            return -EINVAL;
        json_set_int(section_of(spec, integer_options[i].section), integer_options[i].key, value);
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
        return -EINVAL; /* said already */
    if (!invocation_flag(invocation, "no-env")) {
        int result = spec_add_shell_environment(spec, error);

        if (result < 0)
            return result;
    }
    return spec_complete(invocation, spec, error);
}

enum exit_status command_run(struct invocation *invocation)
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
    status = spec_add_graph(invocation, spec);
    return status ? status : specs_submit(invocation, specs);
}
