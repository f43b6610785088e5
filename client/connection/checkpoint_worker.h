/* checkpoint_worker.h: commands that become traind-worker to use a checkpoint of a job on this
 * machine, as the caller. So no job waits for a device, and rows of standard input are answered as
 * they come. These functions print every error and return only after one.
 *
 * They download the checkpoint of the invocation's --step, else the best or the last one, into an
 * unnamed file. The options of the names in `passed` (NULL behind the last) are handed on if they
 * are given, and so is --json. */
#pragma once

#include "client/command_line/invocation.h"

#include <stdint.h>

/* Becomes `traind-worker COMMAND SPEC --checkpoint FILE`, with --device DEVICE where that is not
 * NULL. */
enum exit_status checkpoint_worker_execute(struct invocation *invocation, int64_t id,
                                           const char *command, const char *device,
                                           const char *const *passed);

/* Becomes `traind-worker COMMAND MODEL DATA` on the CPU. The invocation's arguments name the job
 * and DATA. */
enum exit_status checkpoint_worker_execute_on_data(struct invocation *invocation,
                                                   const char *command, const char *const *passed);
