/* job_cgroup.h: the control group of each attempt. They lie below the group that
 * traind-workers.service holds, $TRAIND_WORKERS_CGROUP: systemd cannot restart a service whose own
 * group has children with controllers. The shim makes the attempt's group and sets its limits, the
 * daemon removes it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why jobs have no control groups, or none with all limits: a sentence for Ping's notes; NULL
 * when all is there. */
const char *job_cgroup_shortcoming(void);

/* The most processes and threads that a job may have at once: what the configuration says, or,
 * where that is negative, the part of the machine's that systemd gives a unit. 0: no limit. */
int64_t job_tasks_max(int64_t configured);

/* The path for an attempt's group; false when there can be none. */
bool job_cgroup_path(int64_t job, int64_t attempt, char *path, size_t size);

/* Kills every process of an attempt's group. 1: there were some, and may be for a moment; 0: there
 * was none; -ENOENT: no such group. */
int job_cgroup_kill(int64_t job, int64_t attempt);

/* Calls `visit` for the attempt of each group that there is. */
void job_cgroups_visit(void (*visit)(int64_t job, int64_t attempt, void *data), void *data);

/* Removes the group of an attempt that has no process left. */
void job_cgroup_remove(int64_t job, int64_t attempt);
