/* follow.h: waiting for jobs to end, with what happens meanwhile shown. */
#pragma once

#include "client/command_line/invocation.h"

enum follow_mode {
    FOLLOW_QUIETLY, /* wait, then report */
    /* and show states, a line per epoch, a bar on a terminal, a command's output */
    FOLLOW_PROGRESS,
    FOLLOW_LOGS /* the output of one job, attempt after attempt, and nothing else */
};

/* Waits until the `count` jobs have ended and prints how: a sentence each, or with --json an object
 * each (job_result_new()). The exit status is that of the worst ending; EXIT_STATUS_DETACHED after
 * Ctrl-C. With FOLLOW_LOGS no ending is printed, nor does it change the exit status. */
enum exit_status follow_jobs(struct invocation *invocation, const int64_t *ids, size_t count,
                             enum follow_mode mode);
