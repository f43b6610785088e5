/* snapshot.c: `trainctl snapshot` freezes the code of a command, for the package for Python. */
#include "client/submission/snapshot.h"

#include "client/submission/spec_input.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *specs = json_object_new_array();
    JSON_AUTO struct json_object *output = json_object_new_object();
    struct json_object *spec;
    struct error error = {0};
    enum exit_status status;

    if (spec_input_read(invocation, invocation->arguments[0], specs, &error) < 0) {
        complain("%s", error.text);
        return EXIT_STATUS_USAGE;
    }
    status = snapshot_add(invocation, specs);
    if (status)
        return status;
    spec = json_object_array_get_idx(specs, 0);
    json_set(output, "directory", json_object_get(json_get(spec, "directory")));
    json_set(output, "snapshot", json_object_get(json_get(spec, "snapshot")));
    json_print(output, stdout);
    return EXIT_STATUS_DONE;
}

static const struct command_option snapshot_options[] = {
    SNAPSHOT_OPTION,
    {0},
};

const struct command command_snapshot = {
    .name = "snapshot",
    .place = 356,
    .arguments = "SPEC",
    .summary = "Freeze the code of a command, and print the keys that name it, as JSON",
    .minimum = 1,
    .maximum = 1,
    .hidden = true,
    .options = snapshot_options,
    .completion = COMPLETE_FILES,
    .execute = command_execute,
};
