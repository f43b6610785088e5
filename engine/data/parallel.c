/* parallel.c: see parallel.h. Items are handed out in order, so all items before a failed one have
 * been handed out when it fails. Once those are done, the first failure is known. */
#include "engine/data/parallel.h"

#include "base/clock.h"
#include "engine/data/dataset.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

static const double progress_period = 5; /* seconds */

struct parallel {
    const struct parallel_work *work;
    _Atomic int64_t next, done;
    atomic_bool failed;
    pthread_mutex_t mutex; /* guards the error */
    int64_t failed_index;
    struct error error;
};

struct parallel_thread {
    struct parallel *parallel;
    int number;
    pthread_t thread;
};

int parallel_usable_cores(void)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) < 0 || CPU_COUNT(&cores) < 1)
        return 1;
    return CPU_COUNT(&cores);
}

int parallel_threads(const struct parallel_work *work)
{
    int threads = work->threads > 0 ? work->threads : parallel_usable_cores();

    if (threads > PARALLEL_THREADS_MAX)
        threads = PARALLEL_THREADS_MAX;
    return work->count < threads ? (int)work->count : threads;
}

static void fail(struct parallel *parallel, int64_t index, const struct error *error)
{
    pthread_mutex_lock(&parallel->mutex);
    if (!atomic_load(&parallel->failed) || index < parallel->failed_index) {
        parallel->failed_index = index;
        parallel->error = *error;
    }
    atomic_store(&parallel->failed, true);
    pthread_mutex_unlock(&parallel->mutex);
}

static bool stop_wanted(const struct parallel_work *work)
{
    return work->events && work->events->stop && atomic_load(work->events->stop);
}

static void *thread_run(void *argument)
{
    struct parallel_thread *self = argument;
    struct parallel *parallel = self->parallel;
    const struct parallel_work *work = parallel->work;
    double told = clock_monotonic();

    while (!atomic_load(&parallel->failed)) {
        int64_t index = atomic_fetch_add(&parallel->next, 1);
        struct error error = {0};

        if (index >= work->count)
            break;
        if (stop_wanted(work))
            error_set(&error, -EINTR, "interrupted while %s", work->what);
        else
            work->run(work->context, self->number, index, &error);
        if (error.code < 0)
            fail(parallel, index, &error);
        int64_t done = atomic_fetch_add(&parallel->done, 1) + 1;
        /* the first thread reports the progress of all */
        if (self->number == 0 && work->events && work->events->progress &&
            clock_monotonic() - told >= progress_period) {
            told = clock_monotonic();
            work->events->progress(work->events->context, work->what, done, work->count);
        }
    }
    return NULL;
}

int parallel_run(const struct parallel_work *work, struct error *error)
{
    struct parallel parallel = {.work = work, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct parallel_thread threads[PARALLEL_THREADS_MAX];
    int count = parallel_threads(work), started = 1, code = 0;
    sigset_t all, before;

    threads[0] = (struct parallel_thread){.parallel = &parallel};
    /* signals go to the threads that handle them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; started < count && code == 0; started += code == 0) {
        threads[started] = (struct parallel_thread){.parallel = &parallel, .number = started};
        code = pthread_create(&threads[started].thread, NULL, thread_run, &threads[started]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    thread_run(&threads[0]); /* fewer threads than wanted are enough */
    for (int i = 1; i < started; i++)
        pthread_join(threads[i].thread, NULL);
    if (!atomic_load(&parallel.failed))
        return 0;
    if (error)
        *error = parallel.error;
    return parallel.error.code;
}
