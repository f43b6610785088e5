/* log_tail.h: the last lines of what a job wrote. */
#pragma once

#include "client/command_line/invocation.h"

enum { LOG_TAIL_LINES = 10 /* under a job that failed */ };

/* Prints the last lines of the attempt's output (0: the latest), under a title unless that is NULL.
 * Without a connection, or where there is no output, nothing is printed. Returns whether something
 * was. */
bool log_tail_print(struct invocation *invocation, int64_t job, int64_t attempt, int64_t lines,
                    const char *title, FILE *output);
