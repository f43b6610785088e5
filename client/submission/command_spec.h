/* command_spec.h: makes a specification of a command line, for `run` and `plan`. */
#pragma once

#include "client/command_line/invocation.h"
#include "client/submission/spec_options.h"

/* clang-format off */
/* The options of a command line alone, beside SPEC_OPTIONS. */
#define COMMAND_SPEC_OPTIONS \
    {"directory", 'C', "PATH", "Directory to run in (default: the current one)", COMPLETE_FILES}, \
    {"no-env", 0, NULL, "Pass only PATH, LANG, VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH, LD_LIBRARY_PATH", COMPLETE_NOTHING}
/* clang-format on */

/* Makes the specification of the command that the arguments are, by the options, and completes it.
 * `spec` is an empty object. -EINVAL: the sentence says why, or was printed if there is none. */
int command_spec_make(const struct invocation *invocation, struct json_object *spec,
                      struct error *error);
