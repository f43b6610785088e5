/* model_run.h: becomes traind-worker with the model of a job, for commands that use it here, as the
 * caller and on the CPU of this machine. So no job waits for a device, and rows of standard input
 * are answered as they come. */
#pragma once

#include "client/command_line/invocation.h"

/* Downloads the checkpoint of the job that the first argument names into an unnamed file, and
 * executes `traind-worker COMMAND MODEL DATA` on it. DATA is the second argument. The options of
 * the names in `passed` are handed on if they are given; the list ends with NULL. Returns only
 * after a failure, which it has printed. */
enum exit_status model_run(struct invocation *invocation, const char *command,
                           const char *const *passed);
