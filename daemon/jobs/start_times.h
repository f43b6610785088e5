/* start_times.h: jobs that may not start before a time of day (`at`). The kernel wakes the daemon
 * at the earliest of them, and whenever the clock is set. */
#pragma once

struct job;
struct jobs;

/* Ends with a log line where the kernel has no such timer: the times are then looked at when jobs
 * come. */
void start_times_start(struct jobs *jobs);
void start_times_stop(struct jobs *jobs); /* before the loop ends */
void start_times_free(struct jobs *jobs); /* after it */

/* The job may not start before `at`, seconds since the epoch; 0: at any time. When the time comes,
 * job_graph_due() is told. A time that has passed already counts as 0. */
void job_start_at(struct jobs *jobs, struct job *job, double at);
