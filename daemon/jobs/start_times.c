/* start_times.c: see start_times.h. A heap of times, the earliest first. An entry whose job has
 * ended, or waits for another time since an edit, is dropped when it is the first. */
#include "daemon/jobs/start_times.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/parts.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

struct start_time {
    double at;
    int64_t job;
};

struct start_times {
    struct start_time *heap;
    size_t count, capacity;
    int descriptor; /* of the timer; -1: there is none */
    uv_poll_t poll;
};

/* ---- the heap -------------------------------------------------------------------------------- */

static void swap(struct start_times *times, size_t a, size_t b)
{
    struct start_time held = times->heap[a];

    times->heap[a] = times->heap[b];
    times->heap[b] = held;
}

/* The job of the entry, if it still waits for that time. */
static struct job *job_of(const struct jobs *jobs, const struct start_time *entry)
{
    struct job *job = job_table_find(jobs->table, entry->job);

    return job && !job->ended && job->links && job->links->at == entry->at ? job : NULL;
}

static void push(struct start_times *times, struct start_time entry)
{
    size_t at = times->count++;

    times->heap[at] = entry;
    for (; at > 0 && times->heap[(at - 1) / 2].at > entry.at; at = (at - 1) / 2)
        swap(times, at, (at - 1) / 2);
}

/* Makes room for one more entry. Drops those that nobody waits for any more first, so that edits do
 * not let the heap grow. */
static void reserve(struct jobs *jobs)
{
    struct start_times *times = jobs->start_times;
    size_t count = times->count;

    if (count < times->capacity)
        return;
    times->count = 0;
    for (size_t i = 0; i < count; i++) /* fills places that have been read */
        if (job_of(jobs, &times->heap[i]))
            push(times, times->heap[i]);
    if (times->count <= times->capacity / 2 && times->capacity)
        return;
    times->capacity = times->capacity ? 2 * times->capacity : 16;
    times->heap = memory_grow(times->heap, times->capacity * sizeof *times->heap);
}

static void drop_first(struct start_times *times)
{
    size_t at = 0;

    times->heap[0] = times->heap[--times->count];
    for (;;) {
        size_t least = at;

        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < times->count; child++)
            if (times->heap[child].at < times->heap[least].at)
                least = child;
        if (least == at)
            return;
        swap(times, at, least);
        at = least;
    }
}

/* ---- the timer ------------------------------------------------------------------------------- */

/* Wakes the loop at the earliest time. Setting the clock makes the descriptor readable, too, with
 * ECANCELED: then the times are compared with the new clock. */
static void arm(struct start_times *times)
{
    struct itimerspec timer = {0};

    if (times->descriptor < 0)
        return;
    if (times->count) {
        timer.it_value.tv_sec = (time_t)floor(times->heap[0].at);
        timer.it_value.tv_nsec = (long)(1e9 * (times->heap[0].at - floor(times->heap[0].at)));
        if (timer.it_value.tv_sec == 0 && timer.it_value.tv_nsec == 0)
            timer.it_value.tv_nsec = 1; /* 0 would disarm it */
    }
    if (timerfd_settime(times->descriptor, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &timer,
                        NULL) < 0 &&
        errno != ECANCELED)
        log_error("the timer of jobs that start at a time cannot be set: %s", strerror(errno));
}

/* Lets go of the jobs whose time has come. */
static void look(struct jobs *jobs)
{
    struct start_times *times = jobs->start_times;
    double now = clock_now();

    while (times->count) {
        struct start_time first = times->heap[0];
        struct job *job = job_of(jobs, &first);

        if (job && first.at > now)
            break;
        drop_first(times);
        if (job)
            job_graph_due(jobs, job);
    }
    arm(times);
}

static void on_time(uv_poll_t *poll, int status, int events)
{
    struct jobs *jobs = poll->data;
    uint64_t expirations;
    ssize_t got = read(jobs->start_times->descriptor, &expirations, sizeof expirations);

    (void)status;
    (void)events;
    if (got < 0 && errno == EAGAIN)
        return;
    if (jobs->stopping)
        return;
    look(jobs); /* also after ECANCELED: the clock was set */
    jobs_plan(jobs);
    jobs_dispatch(jobs);
}

void job_start_at(struct jobs *jobs, struct job *job, double at)
{
    struct job_links *links = job_links_of(job);

    links->at = at > clock_now() ? at : 0;
    if (links->at <= 0)
        return;
    reserve(jobs);
    push(jobs->start_times, (struct start_time){links->at, job->id});
    if (jobs->start_times->heap[0].job == job->id)
        arm(jobs->start_times);
}

/* ---- start and end --------------------------------------------------------------------------- */

void start_times_start(struct jobs *jobs)
{
    struct start_times *times = jobs->start_times = memory_zero(sizeof *times);

    times->descriptor = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (times->descriptor < 0 ||
        uv_poll_init(jobs->daemon->loop, &times->poll, times->descriptor) < 0) {
        log_error("no timer for jobs that start at a time: %s", strerror(errno));
        if (times->descriptor >= 0)
            close(times->descriptor);
        times->descriptor = -1;
        return;
    }
    times->poll.data = jobs;
    uv_poll_start(&times->poll, UV_READABLE, on_time);
}

void start_times_stop(struct jobs *jobs)
{
    if (jobs->start_times && jobs->start_times->descriptor >= 0)
        uv_close((uv_handle_t *)&jobs->start_times->poll, NULL);
}

void start_times_free(struct jobs *jobs)
{
    if (!jobs->start_times)
        return;
    if (jobs->start_times->descriptor >= 0)
        close(jobs->start_times->descriptor);
    free(jobs->start_times->heap);
    free(jobs->start_times);
}
