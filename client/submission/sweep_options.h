/* sweep_options.h: the options of `trainctl submit` that make a sweep. */
#pragma once

#include "client/command_line/invocation.h"

/* Makes the parameter `sweep` of SubmitSweep from --sweep (a grid; the last option varies fastest)
 * and --folds, which also sets their number in each of `specs`; from --random with --count and
 * --sample-seed, from --points, or from --search. NULL: no such option is given. The sentence names
 * the option. */
int sweep_options_read(const struct invocation *invocation, struct json_object *specs,
                       struct json_object **sweep, struct error *error);
