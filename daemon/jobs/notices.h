/* notices.h: runs the commands of notify.h, each under a shim of its own, and tells what went
 * wrong with one: in the log, and as a warning of the job. */
#pragma once

#include "daemon/jobs/jobs.h"

struct notice_order {
    int64_t job, attempts; /* its last attempt; job 0: of none */
    int folder;            /* NOTIFY_END, … */
    uid_t uid;
    struct json_object *command; /* lent */
    const char *directory;       /* lent; NULL: the user's home; / where that cannot be entered */
    struct json_object *environment; /* taken over */
};
/* The caller has called notify_queue_take() for it; its end calls notify_queue_give_back(). */
void notice_start(struct jobs *jobs, const struct notice_order *order);

/* Lets go of those that run: nobody hears how they end. */
void notices_stop(struct jobs *jobs);
