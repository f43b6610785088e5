/* threads.h: the CPU backend's own threads: a fixed team that runs one function together, with
 * barriers inside. Thread 0 is the caller. Waiting spins for some microseconds, so that a step of
 * 12 µs is not dominated by wake-ups, and then sleeps on a futex, so that an idle team costs
 * nothing and more threads than free cores still make progress. Its threads keep
 * off each other's cores where there are enough. */
#pragma once

#include "base/error.h"

struct thread_team;

/* Starts count - 1 threads; `thread_begin` (may be NULL) runs once on each, the caller included. */
int thread_team_create(int count, void (*thread_begin)(void), struct thread_team **team,
                       struct error *error);
/* Joins the threads. NULL is allowed. */
void thread_team_free(struct thread_team *team);
int thread_team_size(const struct thread_team *team);

/* Runs function(context, t) for t in 0 … members-1, t = 0 on the caller, and returns when all have
 * returned. `members` beyond the team's size is cut to it. Nothing is allocated. */
void thread_team_run(struct thread_team *team, int members,
                     void (*function)(void *context, int thread), void *context);

/* Called by every member `thread` of the run: returns when all have called it. What they wrote
 * before is visible to all after. */
void thread_team_barrier(struct thread_team *team, int thread);
