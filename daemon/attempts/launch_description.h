/* launch_description.h: attempt.json, by which the shim knows what to start: the trainee's
 * arguments, environment, user, cores and limits. */
#pragma once

#include "daemon/attempts/launch.h"
#include "daemon/attempts/launch_user.h"

/* The description of the attempt whose folder has the path `folder`. The caller releases it. */
struct json_object *launch_describe(const struct attempt_launch *launch,
                                    const struct launch_user *user, const char *folder);

/* The id of the frozen code that the command runs; NULL: it runs what lies in its directory. */
const char *launch_snapshot(const struct attempt_launch *launch);
