/* job_logs.h: limits the disk space of each job's log ([Jobs] LogLimit). A longer log keeps its
 * beginning and its end; its middle becomes a hole in the file, so offsets do not change. */
#pragma once

#include <stdint.h>

struct attempt;
struct jobs;

/* Every LOG_LOOK_SECONDS the logs of all attempts that are on devices are checked. */
enum { LOG_LOOK_SECONDS = 30 };
void job_logs_start(struct jobs *jobs);
void job_logs_stop(struct jobs *jobs);
/* Checks the log of an attempt that has ended. */
void job_logs_ended(const struct attempt *attempt);
/* The offset in bytes at which the hole of a shortened log begins. */
int64_t job_logs_hole_begin(uint64_t limit);
