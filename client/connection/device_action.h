/* device_action.h: the calls of `drain` and `undrain`. */
#pragma once

#include "client/command_line/invocation.h"

/* Calls `method` for the device that the first argument names, and prints the device's new state.
 * Takes over `parameters`. */
enum exit_status device_action_call(struct invocation *invocation, const char *method,
                                    struct json_object *parameters);
