/* history.h: uses the earlier runs of a command to predict the jobs that run it again. */
#pragma once

#include "daemon/work/command_history.h"

#include <stdint.h>
#include <sys/types.h>

struct jobs;
struct workload;

/* Called when the earlier runs of a command have been read and there are any. `job` asked for them;
 * 0: no particular job did. */
typedef void (*history_known)(struct jobs *jobs, int64_t job);

void history_start(struct jobs *jobs, history_known known);
/* Reads the earlier runs of the workload's command; then a decision becomes due. `job` is the job
 * that asks, 0 for all jobs that run the command. */
void history_load(struct jobs *jobs, const struct workload *workload, int64_t job);
/* Takes in what was read: `count` rows, one for each type of device. */
void history_take(const struct jobs *jobs, struct workload *workload,
                  const struct command_history_row *rows, int count);
/* Another run of the user's command with this digest has been stored. */
void history_grown(struct jobs *jobs, uid_t uid, const char *digest);
