/* history.h: what the earlier runs of a command tell of the jobs that run it again. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct jobs;
struct workload;

/* Earlier runs tell something of what the job runs that asked, 0: none did. */
typedef void (*history_known)(struct jobs *jobs, int64_t job);

void history_start(struct jobs *jobs, history_known known);
/* Reads what earlier runs of a command tell, for the job that asks (0: for all that run it); a
 * decision follows. */
void history_load(struct jobs *jobs, const struct workload *workload, int64_t job);
/* One more run of it is stored. */
void history_grown(struct jobs *jobs, uid_t uid, const char *digest);
