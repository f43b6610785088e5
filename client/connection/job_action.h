/* job_action.h: makes one call for each job that the command line names, for `cancel`, `hold`,
 * `pause` and others. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
#define JOB_ACTION_OPTION_FORCE \
    {"force", 0, NULL, "Also a command that does not save its state: it begins from the start", COMPLETE_NOTHING}
/* clang-format on */

/* Calls `method` for each of the first `count` arguments, with `device` unless it is NULL. For a
 * sweep ("sweep:12") it calls `sweep_method`; NULL: the command takes no sweep. Prints the new
 * state of each job. After a refused call it goes on with the next job. */
enum exit_status job_action_call(struct invocation *invocation, size_t count, const char *method,
                                 const char *sweep_method, const char *device);
