/* notify.h: commands that run because a job ended (`notify` of its specification) or because
 * the last one did ([Notify] IdleCommand).
 *
 * A job's commands run as its user, in its directory, under a shim like an attempt, without a shell
 * and for at most NOTIFY_SECONDS; the folder <job>.<NOTIFY_END or NOTIFY_FAILURE> keeps their
 * output and exit record. They start once the end is stored, when it is their turn: should traind
 * end before that they do not run, and never do they run twice for one end. */
#pragma once

#include "daemon/jobs/transition.h"

enum {
    NOTIFY_SECONDS = 300,
    NOTIFY_GRACE_SECONDS = 10, /* between SIGTERM and SIGKILL */
    NOTIFY_END = 1000000,      /* numbers of folders, beyond those of attempts */
    NOTIFY_FAILURE,
    NOTIFY_IDLE
};

/* A transition is stored; for each of them. */
void jobs_notify(struct jobs *jobs, const struct transition *transition);

/* Reads what the job's end runs, and starts it; a notify_queue_turn. */
void notify_of_end(struct jobs *jobs, int64_t job, uid_t uid);
