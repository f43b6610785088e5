/* snapshot.h: freezes the code that jobs run (--snapshot). */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
#define SNAPSHOT_OPTION \
    {"snapshot", 0, "[=FOLDER]", "Run the code as it is now: what git tracks or does not ignore, or all of FOLDER", COMPLETE_FILES}
/* clang-format on */

/* If the options ask for it, copies the files that the commands of the array `specs` run, and makes
 * each specification name the copy. Nothing was copied if it fails before the copy is complete. */
enum exit_status snapshot_add(struct invocation *invocation, struct json_object *specs);
