/* removal.h: removes jobs or checkpoints, for `rm` and `clean`. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
#define REMOVAL_OPTION_CHECKPOINTS \
    {"checkpoints", 0, NULL, "Only their checkpoints: results, metrics and output stay", COMPLETE_NOTHING}
/* clang-format on */

/* Removes ended jobs, or only their checkpoints, in calls of bounded size. `*removed` is the sum of
 * the daemon's replies. */
enum exit_status removal_run(struct invocation *invocation, struct json_object *ids,
                             bool checkpoints_only, int64_t *removed);

/* The same, but a job that the daemon refuses is added to `left`, and the others are removed. The
 * daemon refuses a job whose processes still run, or that was removed meanwhile. */
enum exit_status removal_run_possible(struct invocation *invocation, struct json_object *ids,
                                      bool checkpoints_only, struct json_object *left,
                                      int64_t *removed);
