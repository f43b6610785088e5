/* open.c: opens the job table with all its parts, and closes them. Nothing in this room calls it.
 */
#include "base/cleanup.h"
#include "base/file.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/attempts/removed_folders.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/job_logs.h"
#include "daemon/jobs/notices.h"
#include "daemon/jobs/notify.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/jobs/transition.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

int jobs_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);

    if (!jobs)
        return error_set(error, -ENOMEM, "not enough memory for the table of jobs");
    daemon->jobs = jobs;
    daemon->loop->data = daemon;
    jobs->daemon = daemon;
    jobs->ready_callback = ready;
    predictions_init(&jobs->predictions, daemon->devices, daemon->store);
    jobs->workloads.predictions = &jobs->predictions;
    uv_idle_init(daemon->loop, &jobs->decide_soon);
    jobs->news = (struct jobs_news){.decide = jobs_decide_now,
                                    .plan = planning_begin,
                                    .history_known = job_queue_anew,
                                    .point_left = sweep_point_left};
    uv_timer_init(daemon->loop, &jobs->decide_timer);
    uv_timer_init(daemon->loop, &jobs->store_timer);
    job_logs_start(jobs);
    jobs_headroom_start(jobs);
    jobs->decide_soon.data = jobs->decide_timer.data = jobs->store_timer.data = jobs;
    daemon->shim_path = file_beside_program("traind-shim");
    daemon->worker_path = file_beside_program("traind-worker");
    if (!daemon->shim_path || !daemon->worker_path)
        return error_set(error, -ENOENT, "cannot find out where traind's own program lies");
    if (user_shares_read(daemon->config.shares, &jobs->shares, error) < 0) {
        daemon->failure_exit = DAEMON_EXIT_CONFIGURATION;
        return error->code;
    }
    if (planning_turns_start(jobs) < 0)
        return error_set(error, -ENOMEM, "not enough memory for planning");
    if (job_graph_start(jobs) < 0)
        return error_set(error, -ENOMEM, "not enough memory for the graph of jobs");
    /* Shims tell their end over their sockets; the kernel may reap them. */
    signal(SIGCHLD, SIG_IGN);
    predictions_load(&jobs->predictions); /* before the jobs, as the next ones */
    calibrations_load(&jobs->calibrations, daemon->store);
    device_backends_start(daemon, planning_begin_anew);
    calibrator_start(jobs);
    checkpoints_tidy(&daemon->checkpoint_purge);
    removed_folders_start(daemon);
    checkpoint_sweeps_resume(daemon);
    jobs_recover(jobs);
    return 0;
}

void jobs_stop(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;

    if (!jobs || jobs->stopping)
        return;
    jobs->stopping = true;
    checkpoints_purge_stop(&daemon->checkpoint_purge);
    checkpoint_sweeps_stop(daemon);
    removed_folders_stop(daemon);
    for (size_t i = 0; i < jobs->table.bucket_count; i++) {
        for (struct job *job = jobs->table.buckets[i]; job; job = job->next_in_bucket) {
            job_stop_backoff(job);
            if (job->attempt)
                attempt_detach(TAKE_POINTER(job->attempt));
        }
    }
    transitions_store_last(jobs);
    jobs_decide_stop(jobs);
    uv_close((uv_handle_t *)&jobs->store_timer, NULL);
    job_logs_stop(jobs);
    notices_stop(jobs);
    calibrator_stop(jobs);
    job_graph_stop(jobs);
}

void jobs_free(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;

    if (!jobs)
        return;
    for (size_t i = 0; i < jobs->table.bucket_count; i++) {
        struct job *job = jobs->table.buckets[i];

        while (job) {
            struct job *next = job->next_in_bucket;

            job_free(jobs, job);
            job = next;
        }
    }
    planning_turns_free(jobs);
    notify_queue_free(jobs);
    for (size_t i = 0; i < RECENT_PLANS_KEPT; i++)
        json_object_put(jobs->recent_plans[i].plan);
    transitions_release(jobs);
    job_graph_free(jobs);
    sweeps_free(jobs);
    user_shares_release(&jobs->shares);
    job_table_release(&jobs->table);
    job_classes_release(&jobs->classes);
    workload_table_release(&jobs->workloads);
    predictions_release(&jobs->predictions);
    calibrations_release(&jobs->calibrations);
    calibrator_free(jobs);
    job_needs_table_release(&jobs->needs);
    jobs_snapshot_release(&jobs->snapshot);
    jobs_forecast_release(&jobs->forecast);
    free(jobs->users);
    free(daemon->shim_path);
    free(daemon->worker_path);
    free(jobs);
    daemon->jobs = NULL;
}
