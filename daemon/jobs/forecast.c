/* forecast.c: see forecast.h. The cost of a forecast depends on the jobs in a decision's snapshot,
 * not on the length of the queue. Clients that ask again and again take only a small part of the
 * loop's time. */
#include "daemon/jobs/forecast.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/jobs/decide.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/snapshot.h"
#include "daemon/work/job_table.h"
#include "scheduler/forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The next forecast is made at the earliest after this many times the time that one took. */
static const double pause_factor = 20;
static const double oldest_seconds = 1;

struct forecast {
    struct forecast_row *rows; /* owned; in the order of their positions */
    struct forecast_row *by_job;
    size_t count;
    uint64_t decisions;          /* the number of decisions when it was made */
    double good_until, stale_at; /* kept until good_until, and until stale_at if no decision came */
};

/* ---- the jobs of a class --------------------------------------------------------------------- */

/* An element of the class's heap whose parent has been taken. */
struct open_job {
    int64_t id;
    size_t at;
};

/* The open elements lie in a heap of their own, the lowest id first. */
static void open_push(struct open_job *open, size_t count, struct open_job job)
{
    while (count > 0 && open[(count - 1) / 2].id > job.id) {
        open[count] = open[(count - 1) / 2];
        count = (count - 1) / 2;
    }
    open[count] = job;
}

/* Takes the first of `count` elements out. */
static struct open_job open_pop(struct open_job *open, size_t count)
{
    struct open_job first = open[0], last = open[count - 1];
    size_t at = 0, child;

    for (; (child = 2 * at + 1) < count - 1; at = child) {
        child += child + 1 < count - 1 && open[child + 1].id < open[child].id;
        if (last.id <= open[child].id)
            break;
        open[at] = open[child];
    }
    open[at] = last;
    return first;
}

/* Fills `ids` with the `count` lowest ids of a heap of at least as many, ascending. */
static void first_ids(const struct job_queue *queue, int64_t *ids, size_t count)
{
    struct open_job open[FORECAST_JOBS_MAX + 2];
    size_t open_count = 0;

    open_push(open, open_count++, (struct open_job){queue->jobs[0]->id, 0});
    for (size_t i = 0; i < count && open_count > 0; i++) {
        struct open_job next = open_pop(open, open_count--);

        ids[i] = next.id;
        for (size_t at = 2 * next.at + 1; at <= 2 * next.at + 2 && at < queue->count; at++)
            open_push(open, open_count++, (struct open_job){queue->jobs[at]->id, at});
    }
}

/* Assigns the starts of a class to its jobs: the next start belongs to the next job of the
 * class. */
struct class_cursor {
    const struct job_class *class;
    size_t count, at; /* how many starts there are, and how many are assigned */
    int64_t *ids;     /* owned */
};

static int compare_cursors(const void *a, const void *b)
{
    const struct job_class *first = ((const struct class_cursor *)a)->class,
                           *second = ((const struct class_cursor *)b)->class;

    return first < second ? -1 : first > second;
}

static struct class_cursor *cursor_find(struct class_cursor *cursors, size_t count,
                                        const struct job_class *class)
{
    struct class_cursor key = {.class = class};

    return bsearch(&key, cursors, count, sizeof key, compare_cursors);
}

/* Makes a cursor for each class that occurs in the starts. */
static size_t cursors_make(const struct jobs_snapshot *snapshot,
                           const struct forecast_start *starts, size_t count,
                           struct class_cursor *cursors)
{
    size_t classes = 0;

    for (size_t i = 0; i < count; i++)
        cursors[i] = (struct class_cursor){.class = snapshot->entries[starts[i].index].class};
    qsort(cursors, count, sizeof *cursors, compare_cursors);
    for (size_t i = 0; i < count; i++) {
        if (classes && cursors[classes - 1].class == cursors[i].class)
            cursors[classes - 1].count++;
        else
            cursors[classes++] = (struct class_cursor){.class = cursors[i].class, .count = 1};
    }
    for (size_t i = 0; i < classes; i++) {
        size_t waiting = cursors[i].class->waiting.count;

        if (cursors[i].count > waiting)
            cursors[i].count = waiting;
        cursors[i].ids = calloc(cursors[i].count + 1, sizeof(int64_t));
        if (cursors[i].ids && cursors[i].count)
            first_ids(&cursors[i].class->waiting, cursors[i].ids, cursors[i].count);
    }
    return classes;
}

/* ---- the forecast ---------------------------------------------------------------------------- */

static int compare_jobs(const void *a, const void *b)
{
    int64_t first = ((const struct forecast_row *)a)->job,
            second = ((const struct forecast_row *)b)->job;

    return first < second ? -1 : first > second;
}

static void rows_fill(struct jobs *jobs, const struct forecast_start *starts, size_t count,
                      struct class_cursor *cursors)
{
    struct forecast *forecast = jobs->forecast;
    size_t classes = cursors_make(jobs->snapshot, starts, count, cursors);
    double now = clock_now();

    for (size_t i = 0; i < count; i++) {
        struct class_cursor *cursor =
            cursor_find(cursors, classes, jobs->snapshot->entries[starts[i].index].class);

        if (!cursor->ids || cursor->at == cursor->count)
            continue;
        forecast->rows[forecast->count] = (struct forecast_row){
            .job = cursor->ids[cursor->at++],
            .position = (int64_t)forecast->count + 1,
            .start = isfinite(starts[i].seconds) ? now + starts[i].seconds : NAN,
        };
        forecast->count++;
    }
    memcpy(forecast->by_job, forecast->rows, forecast->count * sizeof *forecast->rows);
    qsort(forecast->by_job, forecast->count, sizeof *forecast->by_job, compare_jobs);
    for (size_t i = 0; i < classes; i++)
        free(cursors[i].ids);
}

static void forecast_make(struct jobs *jobs)
{
    struct forecast *forecast = jobs->forecast;
    struct forecast_start *starts = malloc(FORECAST_JOBS_MAX * sizeof *starts);
    struct class_cursor *cursors = malloc(FORECAST_JOBS_MAX * sizeof *cursors);
    int count = -1;

    forecast->count = 0;
    if (!forecast->rows)
        forecast->rows = malloc(FORECAST_JOBS_MAX * sizeof *forecast->rows);
    if (!forecast->by_job)
        forecast->by_job = malloc(FORECAST_JOBS_MAX * sizeof *forecast->by_job);
    if (starts && cursors && forecast->rows && forecast->by_job &&
        jobs_snapshot_decide(jobs, NULL) == 0)
        count = forecast_starts(&jobs->snapshot->policy, &jobs->snapshot->decision, starts,
                                FORECAST_JOBS_MAX);
    if (count > 0)
        rows_fill(jobs, starts, (size_t)count, cursors);
    free(starts);
    free(cursors);
}

static const struct forecast *forecast_look(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;
    struct forecast *forecast = jobs->forecast;
    double began = (double)uv_hrtime() * 1e-9, ended;

    if (began < forecast->good_until ||
        (began < forecast->stale_at && forecast->decisions == decide_count(jobs)))
        return forecast;
    if (!jobs->loaded || jobs->stopping)
        return forecast;
    forecast_make(jobs);
    ended = (double)uv_hrtime() * 1e-9;
    forecast->decisions = decide_count(jobs);
    forecast->good_until = ended + pause_factor * (ended - began);
    forecast->stale_at = ended + oldest_seconds;
    return forecast;
}

const struct forecast_row *jobs_forecast_find(struct daemon *daemon, int64_t job)
{
    const struct forecast_row key = {.job = job};
    const struct forecast *forecast = forecast_look(daemon);

    if (!forecast->count)
        return NULL;
    return bsearch(&key, forecast->by_job, forecast->count, sizeof key, compare_jobs);
}

size_t jobs_forecast_first(struct daemon *daemon, int64_t *jobs, size_t limit)
{
    const struct forecast *forecast = forecast_look(daemon);
    size_t count = forecast->count < limit ? forecast->count : limit;

    for (size_t i = 0; i < count; i++)
        jobs[i] = forecast->rows[i].job;
    return count;
}

void forecast_start(struct jobs *jobs)
{
    jobs->forecast = memory_zero(sizeof *jobs->forecast);
}

void forecast_free(struct jobs *jobs)
{
    if (!jobs->forecast)
        return;
    free(jobs->forecast->rows);
    free(jobs->forecast->by_job);
    free(jobs->forecast);
}
