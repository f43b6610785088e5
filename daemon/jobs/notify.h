/* notify.h: commands that run because a job has ended (`notify` of its specification), or because
 * no job is left ([Notify] IdleCommand).
 *
 * A job's commands run as its user, in its directory, under a shim as an attempt does, without a
 * shell, and for at most NOTIFY_SECONDS. The folder <job>.<NOTIFY_END or NOTIFY_FAILURE> keeps
 * their output and exit record. They start after the job's end is stored, when it is their turn. If
 * traind ends before that, they do not run. They never run twice for one end. */
#pragma once

#include "daemon/jobs/transition.h"

enum {
    NOTIFY_SECONDS = 300,
    NOTIFY_GRACE_SECONDS = 10, /* from SIGTERM to SIGKILL */
    NOTIFY_END = 1000000,      /* folders' numbers, higher than any attempt's */
    NOTIFY_FAILURE,
    NOTIFY_IDLE
};

/* Call this for each transition that has been stored. */
void jobs_notify(struct jobs *jobs, const struct transition *transition);

/* Reads which commands the job's end runs, and starts them (a notify_queue_turn). */
void notify_of_end(struct jobs *jobs, int64_t job, uid_t uid);
