/* remove.h: what `rm` and `clean` share. */
#pragma once

#include "client/command.h"

/* Removes jobs that have ended, or their checkpoints alone, in calls of bounded size. `*removed`
 * counts what the daemon said. */
enum exit_status jobs_remove(struct invocation *invocation, struct json_object *ids,
                             bool checkpoints_only, int64_t *removed);
