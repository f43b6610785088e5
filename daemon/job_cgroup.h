/* job_cgroup.h: the control group of each attempt. They lie below the group that
 * traind-workers.service holds, $TRAIND_WORKERS_CGROUP: systemd cannot restart a service whose own
 * group has children with controllers. The shim makes the attempt's group and sets its limits, the
 * daemon removes it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why jobs have no control groups, or none with a memory limit: a sentence for Ping's notes; NULL
 * when all is there. */
const char *job_cgroup_shortcoming(void);

/* The path for an attempt's group; false when there can be none. */
bool job_cgroup_path(int64_t job, int64_t attempt, char *path, size_t size);

/* Removes the group of an attempt that has no process left. */
void job_cgroup_remove(int64_t job, int64_t attempt);
