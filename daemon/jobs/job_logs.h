/* job_logs.h: bounds what the output of jobs holds on the disk ([Jobs] LogLimit): of a longer one
 * its beginning and its end stay, and the middle is given back to the disk, so that offsets remain
 * what they were. */
#pragma once

#include <stdint.h>

struct attempt;
struct jobs;

/* Looks at the attempts that are on devices, every LOG_LOOK_SECONDS. */
enum { LOG_LOOK_SECONDS = 30 };
void job_logs_start(struct jobs *jobs);
void job_logs_stop(struct jobs *jobs);
/* Looks at one that has ended. */
void job_logs_ended(const struct attempt *attempt);
/* Where the hole of a shortened log begins. */
int64_t job_logs_hole_begin(uint64_t limit);
