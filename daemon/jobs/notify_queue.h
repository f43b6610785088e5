/* notify_queue.h: the queue of notifications, because thousands of jobs may end at the same time.
 * The number of commands that run at once is limited, in total and for each user, and users take
 * turns. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct jobs;

/* It is the turn of the user's job: reads which commands its end runs, and starts them. One of the
 * user's places is taken for it. */
typedef void (*notify_queue_turn)(struct jobs *jobs, int64_t job, uid_t uid);

void notify_queue_start(struct jobs *jobs, notify_queue_turn turn);
void notify_queue_free(struct jobs *jobs);

void notify_queue_add(struct jobs *jobs, int64_t job, uid_t uid);
/* A command of the user takes one of the places, and gives it back when it has ended. */
void notify_queue_take(struct jobs *jobs, uid_t uid);
void notify_queue_give_back(struct jobs *jobs, uid_t uid);
