/* drain.c: `trainctl drain` keeps further jobs off a device. */
#include "client/connection/device_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    struct json_object *parameters = json_object_new_object();
    const char *reason = invocation_option(invocation, "reason");

    if (reason)
        json_set_string(parameters, "reason", reason);
    if (invocation_flag(invocation, "move"))
        json_set(parameters, "move", json_object_new_boolean(true));
    return device_action_call(invocation, "Drain", parameters);
}

static const struct command_option drain_options[] = {
    {"reason", 'r', "TEXT", "The reason, which `devices` shows", COMPLETE_NOTHING},
    {"move", 0, NULL, "Jobs on it that can save their state leave it for other devices",
     COMPLETE_NOTHING},
    {0},
};

const struct command command_drain = {
    .name = "drain",
    .place = 280,
    .arguments = "DEVICE",
    .summary = "Keep further jobs off a device; jobs that run there go on",
    .details = "Until `trainctl undrain`, also after a restart of the daemon. For administrators.",
    .minimum = 1,
    .maximum = 1,
    .options = drain_options,
    .completion = COMPLETE_DEVICES,
    .execute = command_execute,
};
