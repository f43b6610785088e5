/* worker_child.h: runs work in a child process, which answers with one JSON object. The memory, the
 * threads or a crash that a driver or library causes then do not affect this process. */
#pragma once

#include "proto/json.h"

enum {
    WORKER_CHILD_ANSWER_MAX = 1024 * 1024,
    WORKER_CHILD_SECONDS =
        120 /* a driver may compile PTX for a GPU that it sees for the first time */
};

/* Forks a child that runs `work`, and waits for its answer, which the caller owns. The child has a
 * new program's signal dispositions. SIGALRM ends it after WORKER_CHILD_SECONDS, and it ends when
 * this process ends. NULL: it could not be started (`status` is -1), or its answer is unreadable
 * (`status` is that of waitpid(2)). */
struct json_object *worker_child_ask(struct json_object *(*work)(void *data), void *data,
                                     int *status);
