/* command_spec.c: see command_spec.h. */
#include "client/submission/command_spec.h"

#include "base/text.h"
#include "client/submission/spec_input.h"
#include "client/submission/spec_options.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 128 /* of a job (proto/job_spec_schema.c) */ };

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

/* Applies --gpu and --gpus N: the job runs on that many GPUs, of those that --device names. */
static int add_gpus(const struct invocation *invocation, struct json_object *spec)
{
    int64_t count = 1;

    if (!invocation_flag(invocation, "gpu") && !invocation_option(invocation, "gpus"))
        return 0;
    if (invocation_option(invocation, "gpus") &&
        invocation_option_integer(invocation, "gpus", 1, &count))
        return -EINVAL;
    if (!invocation_option(invocation, "device"))
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

/* Names the job after its program, as far as that may be a name. */
static void name_add(const struct invocation *invocation, struct json_object *spec)
{
    const char *name = invocation_option(invocation, "name");
    char program[NAME_BYTES_MAX + 1];

    if (!name)
        name = text_escape_controls(basename(invocation->arguments[0]), program, sizeof program);
    json_set_string(spec, "name", name);
}

int command_spec_make(const struct invocation *invocation, struct json_object *spec,
                      struct error *error)
{
    struct json_object *command = json_object_new_array();
    const char *directory = invocation_option(invocation, "directory");

    name_add(invocation, spec);
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
