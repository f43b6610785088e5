/* start_times.c: see start_times.h. A heap of times, the earliest first. An entry whose job has
 * ended, or waits for another time since an edit, is dropped when it is the first. */
#include "daemon/jobs/start_times.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/wall_timer.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>

struct start_time {
    double at;
    int64_t job;
};

struct start_times {
    struct start_time *heap;
    size_t count, capacity;
    struct wall_timer timer;
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

/* Wakes the loop at the earliest time. */
static void arm(struct start_times *times)
{
    wall_timer_set(&times->timer, times->count ? times->heap[0].at : 0);
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

static void on_time(void *data, bool clock_was_set)
{
    struct jobs *jobs = data;

    (void)clock_was_set; /* the times are compared with the new clock in both cases */
    if (jobs->stopping)
        return;
    look(jobs);
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
    jobs->start_times = memory_zero(sizeof *jobs->start_times);
    wall_timer_start(&jobs->start_times->timer, jobs->daemon->loop, "jobs that start at a time",
                     on_time, jobs);
}

void start_times_stop(struct jobs *jobs)
{
    if (jobs->start_times)
        wall_timer_stop(&jobs->start_times->timer);
}

void start_times_free(struct jobs *jobs)
{
    if (!jobs->start_times)
        return;
    wall_timer_close(&jobs->start_times->timer);
    free(jobs->start_times->heap);
    free(jobs->start_times);
}
