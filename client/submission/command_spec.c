/* command_spec.c: see command_spec.h. */
#include "client/submission/command_spec.h"

#include "base/text.h"
#include "client/submission/spec_input.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 128 /* of a job (proto/job_spec_schema.c) */ };

/* Names the job after its program, as far as that may be a name. */
static void name_add(const struct invocation *invocation, struct json_object *spec)
{
    char program[NAME_BYTES_MAX + 1];

    json_set_string(
        spec, "name",
        text_escape_controls(basename(invocation->arguments[0]), program, sizeof program));
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
    if (spec_options_apply(invocation, spec))
        return -EINVAL; /* already printed */
    if (!invocation_flag(invocation, "no-env")) {
        int result = spec_input_add_shell_environment(spec, error);

        if (result < 0)
            return result;
    }
    return spec_input_complete(invocation, spec, error);
}
