/* job_cgroup.h: the control group of each attempt. They lie below the group of
 * traind-workers.service, $TRAIND_WORKERS_CGROUP, because systemd cannot restart a service whose
 * own group has children with controllers. The shim makes the attempt's group and sets its limits;
 * the daemon removes it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why jobs have no control groups or lack some limits, as a sentence for Ping's notes; NULL if
 * nothing is missing. */
const char *job_cgroup_shortcoming(void);

/* How many processes and threads a job may have at once: the configured number or, if that is
 * negative, the part of the machine's limit that systemd gives a unit. 0: no limit. Call it on the
 * loop. */
int64_t job_tasks_max(int64_t configured);

/* The path of an attempt's group; false if there can be none. */
bool job_cgroup_path(int64_t job, int64_t attempt, char *path, size_t size);

/* Kills all processes of an attempt's group. 1: there were some, which may exist for a moment
 * longer; 0: there were none; -ENOENT: no such group. */
int job_cgroup_kill(int64_t job, int64_t attempt);

/* Calls `visit` for the attempt of each existing group. */
void job_cgroups_visit(void (*visit)(int64_t job, int64_t attempt, void *data), void *data);

/* Removes the group of an attempt, all of whose processes have ended. */
void job_cgroup_remove(int64_t job, int64_t attempt);
