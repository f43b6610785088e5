/* sweep_changes.c: see sweep_changes.h. */
#include "daemon/jobs/sweep_changes.h"

#include "base/clock.h"
#include "base/memory.h"
#include "daemon/events/watches.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/searches.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/store/job_insert.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/store.h"
#include "daemon/store/sweep_store.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>
#include <string.h>

/* ---- cancelling a sweep --------------------------------------------------------------------- */

struct sweep_end {
    struct daemon *daemon;
    int64_t first_job, points, expanded;
    double time;
    bool marked; /* the cancellation ended points without rows */
    jobs_done done;
    void *data;
};

static int sweep_end_work(struct store_connection *connection, void *data, struct error *error)
{
    struct sweep_end *end = data;

    return sweep_cancelled_store(connection, end->first_job, end->time, &end->marked, &end->points,
                                 &end->expanded, error);
}

static int nothing_work(struct store_connection *connection, void *data, struct error *error)
{
    (void)connection;
    (void)data;
    (void)error;
    return 0;
}

/* All changes that were handed in before are stored. */
static void on_points_stored(void *data, int result, const struct error *error)
{
    struct sweep_end *end = data;

    end->done(end->data, result, error);
    free(end);
}

static void on_sweep_end(void *data, int result, const struct error *error)
{
    struct sweep_end *end = data;
    struct jobs *jobs = end->daemon->jobs;
    struct sweep_run *run = sweep_find(jobs, end->first_job);
    struct error nothing;
    size_t cancelled = 0;

    if (result < 0) {
        end->done(end->data, result, error);
        free(end);
        return;
    }
    if (run)
        run->sweep.cancelled = true; /* the run is freed with its last point */
    if (run && run->search)
        search_points_end(jobs, run->search);
    for (int64_t id = end->first_job; id < end->first_job + end->expanded; id++) {
        struct job *job = jobs->stopping ? NULL : job_table_find(jobs->table, id);

        if (job && !job->ended) {
            job_cancel(jobs, job, "its sweep was cancelled", NULL, NULL);
            cancelled++;
        }
    }
    if (end->marked && !jobs->stopping) {
        watches_jobs_changed(&end->daemon->watches, end->first_job + end->expanded,
                             end->first_job + end->points - 1);
        job_graph_ask_again(jobs, end->first_job, end->first_job + end->points - 1);
        run = sweep_find(
            jobs,
            end->first_job); /* NULL: it was freed with its last point, and told the graph then */
        if (run)
            sweep_tell(jobs, run, true);
        sweeps_tidy(jobs);
    }
    if (!end->marked && cancelled == 0) {
        error_set(&nothing, -ERROR_NO_SUCH_JOB, "no point of the sweep is left to cancel");
        end->done(end->data, -ERROR_NO_SUCH_JOB, &nothing);
        free(end);
        return;
    }
    store_write(end->daemon->store, nothing_work, on_points_stored, end);
}

void sweep_cancel(struct daemon *daemon, int64_t first_job, jobs_done done, void *data)
{
    struct sweep_end *end = memory_zero(sizeof *end);

    *end = (struct sweep_end){
        .daemon = daemon, .first_job = first_job, .time = clock_now(), .done = done, .data = data};
    store_write(daemon->store, sweep_end_work, on_sweep_end, end);
}

/* ---- cancelling a point ---------------------------------------------------------------------- */

struct point_end {
    struct daemon *daemon;
    struct job_entry entry;
    char *user, *reason; /* owned */
    double time;
    jobs_done done;
    void *data;
};

static int point_end_work(struct store_connection *connection, void *data, struct error *error)
{
    struct point_end *end = data;
    int64_t missing;
    size_t culprit;
    int exists = job_row_exists(connection, end->entry.submission.id, error);

    if (exists < 0)
        return exists;
    end->entry.exists = exists > 0;
    if (end->entry.exists)
        return 0;
    return job_entries_insert(connection, &end->entry, 1, end->user, end->time, &culprit, &missing,
                              error);
}

static void on_point_end(void *data, int result, const struct error *error)
{
    struct point_end *end = data;
    int64_t id = end->entry.submission.id;

    if (result == 0 && end->entry.exists) { /* the point has become a job meanwhile */
        jobs_cancel(end->daemon, id, end->reason, end->done, end->data);
    } else {
        if (result == 0) {
            watches_job_changed(&end->daemon->watches, id);
            job_graph_ask_again(end->daemon->jobs, id, id);
            job_graph_ask_sweep(end->daemon->jobs, end->entry.sweep, true, false);
        }
        if (end->done)
            end->done(end->data, result, error);
    }
    job_entry_release(&end->entry);
    free(end->user);
    free(end->reason);
    free(end);
}

/* Cancels one point without a row. False: `id` is no such point. */
static bool sweep_cancel_point(struct daemon *daemon, int64_t id, const char *reason,
                               jobs_done done, void *data)
{
    struct sweep_run *run = sweep_find_point_to_come(daemon->jobs, id);
    struct point_end *end;

    if (!run)
        return false;
    end = memory_zero(sizeof *end);
    end->daemon = daemon;
    end->user = memory_copy_text(run->sweep.user);
    end->reason = memory_copy_text(reason ? reason : "cancelled");
    end->time = clock_now();
    end->done = done;
    end->data = data;
    sweep_point_prepare(run, id - run->sweep.first_job, NULL, &end->entry);
    if (!end->entry.final_reason) { /* else it is invalid and has failed anyway */
        end->entry.final_state = JOB_CANCELLED;
        end->entry.final_reason = memory_copy_text(end->reason);
    }
    store_write(daemon->store, point_end_work, on_point_end, end);
    return true;
}

/* ---- a job, be it a point or not ------------------------------------------------------------- */

void jobs_cancel(struct daemon *daemon, int64_t id, const char *reason, jobs_done done, void *data)
{
    struct job *job = job_table_find(daemon->jobs->table, id);
    struct error error;

    if (!job && sweep_cancel_point(daemon, id, reason, done, data))
        return;
    if (job && !job->ended) {
        job_cancel(daemon->jobs, job, reason, done, data);
        return;
    }
    error_set(&error, -ERROR_NO_SUCH_JOB, "job %lld has ended already", (long long)id);
    if (done)
        done(data, -ERROR_NO_SUCH_JOB, &error);
}

/* ---- holding a sweep ------------------------------------------------------------------------- */

struct sweep_hold {
    struct daemon *daemon;
    int64_t first_job, expanded;
    size_t pending; /* changes that are not stored yet: of jobs and of the sweep */
    bool held, open;
    size_t changed;
    jobs_done done;
    void *data;
};

static int sweep_hold_work(struct store_connection *connection, void *data, struct error *error)
{
    struct sweep_hold *hold = data;

    return sweep_held_store(connection, hold->first_job, hold->held, &hold->expanded, &hold->open,
                            error);
}

static void hold_let_go(struct sweep_hold *hold)
{
    struct error error;

    if (--hold->pending > 0)
        return;
    if (hold->open || hold->changed) {
        hold->done(hold->data, 0, NULL);
    } else {
        error_set(&error, -ERROR_NO_SUCH_JOB, "no job of the sweep is queued");
        hold->done(hold->data, -ERROR_NO_SUCH_JOB, &error);
    }
    free(hold);
}

static void on_point_held(void *data, int result, const struct error *error)
{
    struct sweep_hold *hold = data;

    (void)error; /* it fails only for a point that has just started, which need not be held */
    hold->changed += result == 0;
    hold_let_go(hold);
}

static void on_sweep_held(void *data, int result, const struct error *error)
{
    struct sweep_hold *hold = data;
    struct jobs *jobs = hold->daemon->jobs;
    struct sweep_run *run = sweep_find(jobs, hold->first_job);

    if (result < 0) {
        hold->done(hold->data, result, error);
        free(hold);
        return;
    }
    if (run)
        run->sweep.held = hold->held;
    hold->pending = 1;
    for (int64_t id = hold->first_job; id < hold->first_job + hold->expanded; id++) {
        struct job *job = jobs->stopping ? NULL : job_table_find(jobs->table, id);

        if (!job || job->ended || job->state != JOB_QUEUED)
            continue;
        hold->pending++;
        jobs_hold(hold->daemon, id, hold->held, on_point_held, hold);
    }
    hold_let_go(hold);
}

void sweep_hold(struct daemon *daemon, int64_t first_job, bool held, jobs_done done, void *data)
{
    struct sweep_hold *hold = memory_zero(sizeof *hold);

    *hold = (struct sweep_hold){
        .daemon = daemon, .first_job = first_job, .held = held, .done = done, .data = data};
    store_write(daemon->store, sweep_hold_work, on_sweep_held, hold);
}
