/* undrain.c: `trainctl undrain` lets a device take jobs again. */
#include "client/connection/device_action.h"

static enum exit_status command_execute(struct invocation *invocation)
{
    return device_action_call(invocation, "Undrain", json_object_new_object());
}

const struct command command_undrain = {
    .name = "undrain",
    .place = 290,
    .arguments = "DEVICE",
    .summary = "Let a device take jobs again that was drained or quarantined",
    .details = "traind quarantines a device after an error of its own. For administrators.",
    .minimum = 1,
    .maximum = 1,
    .completion = COMPLETE_DEVICES,
    .execute = command_execute,
};
