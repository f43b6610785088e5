/* sweeps_hold.c: holding and releasing a sweep as a whole; see sweeps.h. The sweep's row says how
 * points begin that are no rows yet; those in the queue are held or released one by one. */
#include "daemon/jobs/graph.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/store/store.h"
#include "daemon/store/sweep_store.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>

struct sweep_hold {
    struct daemon *daemon;
    int64_t first_job, expanded;
    size_t pending; /* jobs whose change is not stored yet, and the sweep itself */
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
        error_set(&error, -ESRCH, "no job of the sweep is queued");
        hold->done(hold->data, -ESRCH, &error);
    }
    free(hold);
}

static void on_point_held(void *data, int result, const struct error *error)
{
    struct sweep_hold *hold = data;

    (void)error; /* a point that has just started is not held; nor does it matter */
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
    struct sweep_hold *hold = calloc(1, sizeof *hold);
    struct error error;

    if (!hold) {
        error_set(&error, -ENOMEM, "no memory left");
        done(data, -ENOMEM, &error);
        return;
    }
    *hold = (struct sweep_hold){
        .daemon = daemon, .first_job = first_job, .held = held, .done = done, .data = data};
    store_write(daemon->store, sweep_hold_work, on_sweep_held, hold);
}
