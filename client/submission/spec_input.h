/* spec_input.h: makes specifications that are ready to submit from the command line. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
#define SPEC_INPUT_OPTION_SET \
    {"set", 0, "A.B=VALUE", "Set a key of the specification (JSON or a word); repeatable", COMPLETE_ASSIGNMENTS}
#define SPEC_INPUT_OPTION_ENV \
    {"env", 'e', "NAME[=VALUE]", "Give the job a variable of the environment; repeatable", COMPLETE_NOTHING}
#define SPEC_INPUT_OPTION_PROFILE \
    {"profile", 0, NULL, "Record where the time goes: train.profile=20, unless it is set", COMPLETE_NOTHING}
/* clang-format on */

/* Appends the specification in `path` ("-": standard input), or each one if the file holds an
 * array, to the JSON array `specs`. Where no file is, `path` may be presets ("mlp+fashion"). The
 * sentence begins with the path, or names the preset. */
int spec_input_read(struct invocation *invocation, const char *path, struct json_object *specs,
                    struct error *error);

/* Adds the environment of `trainctl run` to the specification, without the shell's own variables.
 * -E2BIG with a sentence. */
int spec_input_add_shell_environment(struct json_object *spec, struct error *error);

/* Applies --set, --profile and --env. Fills in the directory, and the environment variables that
 * jobs depend on, unless the specification has them. Exports a model that is a module of
 * PyTorch. */
int spec_input_complete(const struct invocation *invocation, struct json_object *spec,
                        struct error *error);

/* Reads the single specification that the first argument names, completes it, and normalises it.
 * The options of SPEC_OPTIONS are applied where the command has them (`by_options`). The caller
 * owns both, also after a failure. */
enum exit_status spec_input_read_one(struct invocation *invocation, bool by_options,
                                     struct json_object **spec, struct json_object **normalised);
