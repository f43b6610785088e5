/* decide.h: makes decisions about what runs where, and carries them out. */
#pragma once

#include <stdint.h>

struct jobs;

void decide_start(struct jobs *jobs);
void decide_stop(struct jobs *jobs);

/* Makes the decision that is due; dispatch.h. */
void jobs_decide(struct jobs *jobs);
/* How many there were since the start. */
uint64_t decide_count(const struct jobs *jobs);
