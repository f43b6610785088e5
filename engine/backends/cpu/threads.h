/* threads.h: the CPU backend's thread team: a fixed number of threads that run one function
 * together, with barriers inside. Thread 0 is the caller.
 *
 * A waiting thread spins for some microseconds, so that wake-ups do not dominate a step of 12 µs.
 * Then it sleeps on a futex, so that an idle team costs nothing and more threads than free cores
 * still make progress. The threads run on different cores if there are enough. */
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

/* Every member `thread` of the run calls this, and it returns when all have. All then see what any
 * member wrote before. */
void thread_team_barrier(struct thread_team *team, int thread);
