/* graph_input.h: the options of submit and run that relate a job to others. */
#pragma once

#include "client/command_line/invocation.h"

/* Applies --after, --after-any, --group, --hold and --at to a specification. Prints errors. */
enum exit_status graph_input_add(struct invocation *invocation, struct json_object *spec);
