/* decide.h: decides which job runs on which device, and carries the decisions out. */
#pragma once

#include <stdint.h>

struct jobs;

void decide_start(struct jobs *jobs);
void decide_stop(struct jobs *jobs);

/* Makes the decision that is due (dispatch.h). */
void jobs_decide(struct jobs *jobs);
/* The number of decisions since the daemon started. */
uint64_t decide_count(const struct jobs *jobs);
