/* device_action.h: the calls that say whether a device takes further jobs. */
#pragma once

#include "client/command_line/invocation.h"

/* Calls `method` for the device that the first argument names, and prints how the device is then.
 * Takes over `parameters`. */
enum exit_status device_action_call(struct invocation *invocation, const char *method,
                                    struct json_object *parameters);
