/* notify_queue.h: notifications wait here for their turn. A few run at once, of each user fewer,
 * and users take turns: thousands of jobs may end at the same time. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct jobs;

/* It is the turn of the job of that user, one of whose places is taken: reads what its end runs,
 * and starts it. */
typedef void (*notify_queue_turn)(struct jobs *jobs, int64_t job, uid_t uid);

void notify_queue_start(struct jobs *jobs, notify_queue_turn turn);
void notify_queue_free(struct jobs *jobs);

void notify_queue_add(struct jobs *jobs, int64_t job, uid_t uid);
/* A command of that user's takes one of the places, and gives it back. */
void notify_queue_take(struct jobs *jobs, uid_t uid);
void notify_queue_give_back(struct jobs *jobs, uid_t uid);
