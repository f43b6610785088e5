/* follow.h: waits for jobs to end, and shows their progress. */
#pragma once

#include "client/command_line/invocation.h"

enum follow_mode {
    FOLLOW_QUIETLY, /* wait, then report */
    /* also show states, a line per epoch, a bar on a terminal, a command's output */
    FOLLOW_PROGRESS,
    FOLLOW_LOGS /* show only the output of one job, attempt after attempt */
};

/* Waits until the `count` jobs have ended. Prints for each how it ended: a sentence, or with --json
 * an object (job_result_new()). Returns the exit status of the worst ending, or
 * EXIT_STATUS_DETACHED after Ctrl-C. With FOLLOW_LOGS it prints no ending, and the exit status does
 * not depend on it. */
enum exit_status follow_jobs(struct invocation *invocation, const int64_t *ids, size_t count,
                             enum follow_mode mode);
