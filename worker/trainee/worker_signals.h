/* worker_signals.h: which thread takes the process's signals: one of their own, no other.
 *
 * A thread that computes must never run a handler. Generated code (the products of oneDNN 2.6)
 * keeps data farther below the stack pointer than the 128 bytes that the ABI spares, and the kernel
 * puts a handler's frame there. So the main thread blocks every asynchronous signal before there is
 * another thread, all threads inherit that, and nothing in the process installs a handler. */
#pragma once

#include "base/error.h"
#include "engine/train/training.h"

/* Blocks them in the calling thread and starts the one that takes them. To be called before any
 * other thread is started. Until worker_signals_serve() every signal has its default effect. */
int worker_signals_begin(struct error *error);

/* From now on SIGTERM and SIGINT ask to stop and SIGUSR1 asks for a checkpoint; a second SIGINT
 * ends the process at once. `requests` outlives the process's threads. */
void worker_signals_serve(struct training_requests *requests);

/* Before execve(): no thread takes signals from now on, so that they stay pending for the program
 * that follows. What was taken before has been served. */
void worker_signals_end(void);

/* In a child after fork(), which has one thread: signals end it as they end any program. */
void worker_signals_reset(void);
