/* worker_signals.h: a dedicated thread takes all of the process's signals.
 *
 * A computing thread must never run a handler. Generated code (matrix products of oneDNN 2.6) keeps
 * data below the stack pointer beyond the ABI's red zone of 128 bytes, and the kernel puts a
 * handler's frame there. So the main thread blocks every asynchronous signal before it starts other
 * threads, which inherit that, and no code in the process installs a handler. */
#pragma once

#include "base/error.h"
#include "engine/train/training.h"

/* Blocks signals in the calling thread and starts the thread that takes them. Call it before any
 * other thread is started. Until worker_signals_serve() every signal has its default effect. */
int worker_signals_begin(struct error *error);

/* From now on SIGTERM, SIGINT and SIGHUP (unless it is ignored, as by nohup) ask to stop, and
 * SIGUSR1 asks for a checkpoint; a second SIGINT ends the process at once. `requests` must outlive
 * the process's threads. */
void worker_signals_serve(struct training_requests *requests);

/* Call it before execve(). No thread takes signals from then on, so they stay pending for the next
 * program. Signals taken earlier have been served. */
void worker_signals_end(void);

/* Call it in a child after fork(), which has one thread: restores the default effect of signals. */
void worker_signals_reset(void);
