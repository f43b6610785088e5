/* worker_child.h: work that a process of its own does for this one, which it answers with one JSON
 * object: whatever a driver or a library does to a process (its memory, its threads, a crash) stays
 * there. */
#pragma once

#include "proto/json.h"

enum {
    WORKER_CHILD_ANSWER_MAX = 1024 * 1024,
    WORKER_CHILD_SECONDS =
        120 /* a driver may compile PTX for a GPU that it sees for the first time */
};

/* Forks a child that runs `work` and waits for what that answers, which the caller owns. The child
 * begins with signals as a new program has them, is ended by SIGALRM after WORKER_CHILD_SECONDS,
 * and goes with this process. NULL: it could not be started (`status` is -1), or gave no answer
 * that can be read (`status` is that of waitpid(2)). */
struct json_object *worker_child_ask(struct json_object *(*work)(void *data), void *data,
                                     int *status);
