/* run.c: `trainctl run`: a command line becomes a command job. */
#include "client/graph_input.h"
#include "client/spec_input.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>

static int spec_from_command(const struct invocation *invocation, struct json_object *spec,
                             struct error *error)
{
    struct json_object *command = json_object_new_array(), *resources;
    const char *name = invocation_option(invocation, "name");
    const char *directory = invocation_option(invocation, "directory");
    const char *memory = invocation_option(invocation, "memory");
    int64_t cores = 0;

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
    if (invocation_option_integer(invocation, "cores", 1, &cores))
        return -EINVAL; /* said already */
    if (cores || memory) {
        resources = json_object_new_object();
        json_set(spec, "resources", resources);
        if (cores)
            json_set_int(resources, "cores", cores);
        if (memory)
            json_set_string(resources, "memory", memory);
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
