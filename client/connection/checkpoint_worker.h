/* checkpoint_worker.h: commands that become traind-worker to use a checkpoint of a job on this
 * machine, as the caller. These functions print every error. */
#pragma once

#include "client/command_line/invocation.h"

#include <stdint.h>

/* Downloads the checkpoint of the invocation's --step, else the best or the last one, into an
 * unnamed file. Becomes `traind-worker COMMAND SPEC --checkpoint FILE` with the options `passed`
 * of the invocation (NULL behind the last), --device DEVICE where that is not NULL, and --json.
 * Returns only after an error. */
enum exit_status checkpoint_worker_execute(struct invocation *invocation, int64_t id,
                                           const char *command, const char *device,
                                           const char *const *passed);
