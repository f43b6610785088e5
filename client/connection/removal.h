/* removal.h: what `rm` and `clean` share. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
#define REMOVAL_OPTION_CHECKPOINTS \
    {"checkpoints", 0, NULL, "Only their checkpoints: results, metrics and output stay", COMPLETE_NOTHING}
/* clang-format on */

/* Removes jobs that have ended, or their checkpoints alone, in calls of bounded size. `*removed`
 * counts what the daemon said. */
enum exit_status removal_run(struct invocation *invocation, struct json_object *ids,
                             bool checkpoints_only, int64_t *removed);

/* The same for each that may be: one that is refused, because its processes are still to go or
 * somebody else has removed it meanwhile, is added to `left` and keeps none of the others. */
enum exit_status removal_run_possible(struct invocation *invocation, struct json_object *ids,
                                      bool checkpoints_only, struct json_object *left,
                                      int64_t *removed);
