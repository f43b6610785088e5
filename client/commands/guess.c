/* guess.c: `trainctl guess` prints where a command probably belongs, for the package for Python. */
#include "client/submission/device_guess.h"
#include "client/submission/spec_input.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    JSON_AUTO struct json_object *spec = NULL, *normalised = NULL;
    JSON_AUTO struct json_object *output = json_object_new_object();
    enum exit_status status = spec_input_read_one(invocation, false, &spec, &normalised);
    struct json_object *device;

    if (status)
        return status;
    device_guess_add(spec);
    device = json_get(spec, "device");
    json_set_string(output, "guess", json_get_string(device, "guess", NULL));
    json_set_string(output, "guess_reason", json_get_string(device, "guess_reason", NULL));
    json_print(output, stdout);
    return EXIT_STATUS_DONE;
}

static const struct command_option guess_options[] = {
    SPEC_INPUT_OPTION_SET,
    {0},
};

const struct command command_guess = {
    .name = "guess",
    .place = 355,
    .arguments = "SPEC",
    .summary = "Print where a command that names no device probably belongs, as JSON",
    .minimum = 1,
    .maximum = 1,
    .hidden = true,
    .options = guess_options,
    .completion = COMPLETE_FILES,
    .execute = command_execute,
};
