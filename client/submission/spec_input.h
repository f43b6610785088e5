/* spec_input.h: from the command line to specifications that are ready to submit. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
#define SPEC_INPUT_OPTION_SET \
    {"set", 0, "A.B=VALUE", "Set a key of the specification (JSON or a word); repeatable", COMPLETE_ASSIGNMENTS}
/* clang-format on */

/* Appends the specification of `path` ("-": standard input), or each of the array that it holds, to
 * the JSON array `specs`. The sentence begins with the path. */
int spec_input_read(const char *path, struct json_object *specs, struct error *error);

/* What `trainctl run` hands on of the environment that it is called in: all but what belongs to the
 * shell. -E2BIG with a sentence. */
int spec_input_add_shell_environment(struct json_object *spec, struct error *error);

/* Applies --set and --env, and fills in the directory and the variables of the environment that
 * jobs depend on, where the specification does not say otherwise. */
int spec_input_complete(const struct invocation *invocation, struct json_object *spec,
                        struct error *error);

/* The one specification that the first argument names, complete, and its normal form; the caller
 * owns both, also after a failure. */
enum exit_status spec_input_read_one(const struct invocation *invocation, struct json_object **spec,
                                     struct json_object **normalised);
