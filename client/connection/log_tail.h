/* log_tail.h: prints the last lines of a job's output. */
#pragma once

#include "client/command_line/invocation.h"

enum { LOG_TAIL_LINES = 10 /* under a job that failed */ };

/* Prints the last lines of the attempt's output (`attempt` 0: the latest), under a title unless
 * that is NULL. Without a connection or output it prints nothing. Returns whether it printed
 * anything. */
bool log_tail_print(struct invocation *invocation, int64_t job, int64_t attempt, int64_t lines,
                    const char *title, FILE *output);
