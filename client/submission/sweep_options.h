/* sweep_options.h: the options of `trainctl submit` that make a sweep. */
#pragma once

#include "client/command_line/invocation.h"

/* The sweep of --sweep (a grid; the last option varies fastest), --random with --count and
 * --sample-seed, or --points, as SubmitSweep takes it; NULL when there is none. The sentence names
 * the option. */
int sweep_options_read(const struct invocation *invocation, struct json_object **sweep,
                       struct error *error);
