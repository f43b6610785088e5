/* parallel.h: does the same work for many items on several threads, while a data set is opened. */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct dataset_events;

enum { PARALLEL_THREADS_MAX = 256 };

struct parallel_work {
    int64_t count;
    int threads; /* 0: parallel_usable_cores() */
    /* Does item `index`; `thread`, from 0, is the calling thread's own number. */
    int (*run)(void *context, int thread, int64_t index, struct error *error);
    void *context;
    const char *what;                    /* for the progress: "decoding train/" */
    const struct dataset_events *events; /* NULL allowed */
};

/* Runs all items, in any order. A failure stops it; the error is that of the lowest item that
 * fails, for any number of threads. -EINTR if events->stop was set. */
int parallel_run(const struct parallel_work *work, struct error *error);

/* Threads that parallel_run() takes for the work. */
int parallel_threads(const struct parallel_work *work);

/* Cores that this process may use (sched_getaffinity), at least 1. */
int parallel_usable_cores(void);
