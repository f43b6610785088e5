/* job_action.h: one call for each job that the command line names: `cancel`, `hold`, `pause` and so
 * on. */
#pragma once

#include "client/command_line/invocation.h"

/* clang-format off */
#define JOB_ACTION_OPTION_FORCE \
    {"force", 0, NULL, "Also a command that does not save its state: it begins from the start", COMPLETE_NOTHING}
/* clang-format on */

/* Calls `method` for the first `count` arguments, with `device` unless it is NULL. A sweep
 * ("sweep:12") takes `sweep_method`, or NULL where there is none. Prints what became of each job;
 * one that is refused keeps no other from its call. */
enum exit_status job_action_call(struct invocation *invocation, size_t count, const char *method,
                                 const char *sweep_method, const char *device);
