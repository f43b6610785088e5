/* notices.h: runs the commands of notify.h, each under a shim of its own. A failure of a command is
 * logged and becomes a warning of its job. */
#pragma once

#include "daemon/jobs/jobs.h"

struct notice_order {
    int64_t job, attempts; /* the job's id, 0 for no job; the number of its last attempt */
    int folder;            /* NOTIFY_END, … */
    uid_t uid;
    struct json_object *command; /* lent */
    const char *directory;       /* lent; NULL: the user's home, or / if that cannot be entered */
    struct json_object *environment; /* taken over */
};
/* Starts the command. The caller must have called notify_queue_take(); when the command ends,
 * notices.c calls notify_queue_give_back(). */
void notice_start(struct jobs *jobs, const struct notice_order *order);

/* Lets go of the running commands; they go on, and their failures are not reported. */
void notices_stop(struct jobs *jobs);
