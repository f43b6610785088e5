/* open.c: opens and closes struct jobs with all its parts. No other file of this room calls it. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/attempts/removed_folders.h"
#include "daemon/jobs/begin_checkpoints.h"
#include "daemon/jobs/calibrations.h"
#include "daemon/jobs/calibrator.h"
#include "daemon/jobs/code_snapshots.h"
#include "daemon/jobs/decide.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/early_changes.h"
#include "daemon/jobs/forecast.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/groups.h"
#include "daemon/jobs/headroom.h"
#include "daemon/jobs/history.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_logs.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/job_users.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/notices.h"
#include "daemon/jobs/notify.h"
#include "daemon/jobs/notify_queue.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/planning.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/jobs/predictions.h"
#include "daemon/jobs/recent_plans.h"
#include "daemon/jobs/recovery.h"
#include "daemon/jobs/samples.h"
#include "daemon/jobs/schedules.h"
#include "daemon/jobs/search_verdicts.h"
#include "daemon/jobs/snapshot.h"
#include "daemon/jobs/start.h"
#include "daemon/jobs/start_times.h"
#include "daemon/jobs/suspension_costs.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>

/* struct jobs and the containers that several files use. */
struct jobs_memory {
    struct jobs jobs;
    struct job_table table;
    struct job_classes classes;
    struct workload_table workloads;
    struct predictions_table predictions;
    struct calibrations calibrations;
    struct job_needs_table needs;
    struct jobs_snapshot snapshot;
};

static struct jobs *jobs_new(struct daemon *daemon)
{
    struct jobs_memory *memory = memory_zero(sizeof *memory);

    memory->jobs = (struct jobs){.daemon = daemon,
                                 .table = &memory->table,
                                 .classes = &memory->classes,
                                 .workloads = &memory->workloads,
                                 .predictions = &memory->predictions,
                                 .calibrations = &memory->calibrations,
                                 .needs = &memory->needs,
                                 .snapshot = &memory->snapshot};
    predictions_init(&memory->predictions, daemon->devices, daemon->store);
    memory->workloads.predictions = &memory->predictions;
    return &memory->jobs;
}

/* Each part with the functions by which it tells those above it. */
static void open_parts(struct jobs *jobs)
{
    job_users_start(jobs);
    groups_start(jobs);
    job_graph_start(jobs, sweep_point_left);
    start_times_start(jobs);
    sweeps_start(jobs);
    history_start(jobs, job_queue_anew);
    details_start(jobs);
    early_changes_start(jobs);
    transitions_start(jobs, jobs_notify, job_launch);
    planning_turns_start(jobs);
    recent_plans_start(jobs);
    dispatch_start(jobs, jobs_decide, planning_begin);
    decide_start(jobs);
    forecast_start(jobs);
    jobs_headroom_start(jobs);
    begin_checkpoints_open(jobs);
    job_logs_start(jobs);
    notify_queue_start(jobs, notify_of_end);
    samples_start(jobs);
}

int jobs_start(struct daemon *daemon, void (*ready)(struct daemon *daemon), struct error *error)
{
    struct jobs *jobs = jobs_new(daemon);

    daemon->jobs = jobs;
    daemon->loop->data = daemon;
    jobs->ready = ready;
    open_parts(jobs);
    daemon->shim_path = file_beside_program("traind-shim");
    daemon->suspend_path = file_beside_program("traind-suspend");
    daemon->worker_path = file_beside_program("traind-worker");
    if (!daemon->shim_path || !daemon->suspend_path || !daemon->worker_path)
        return error_set(error, -ENOENT, "cannot find out where traind's own program lies");
    if (job_users_read_shares(jobs, error) < 0) {
        daemon->failure_exit = DAEMON_EXIT_CONFIGURATION;
        return error->code;
    }
    predictions_load(jobs->predictions); /* these two are read before the jobs */
    calibrations_load(jobs->calibrations, daemon->store);
    jobs->suspension_costs = suspension_costs_load(daemon->store);
    device_backends_start(daemon, planning_begin_anew);
    calibrator_start(jobs);
    checkpoints_tidy(&daemon->checkpoint_purge);
    removed_folders_start(daemon);
    checkpoint_sweeps_resume(daemon);
    code_snapshots_tidy(daemon);
    jobs_recover(jobs);
    return 0;
}

void jobs_stop(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;

    if (!jobs || jobs->stopping)
        return;
    jobs->stopping = true;
    search_exploits_go_on(jobs); /* those that have not begun end here */
    daemon->devices->stopping = true;
    checkpoints_purge_stop(&daemon->checkpoint_purge);
    checkpoint_sweeps_stop(daemon);
    removed_folders_stop(daemon);
    for (size_t i = 0; i < jobs->table->bucket_count; i++) {
        for (struct job *job = jobs->table->buckets[i]; job; job = job->next_in_bucket) {
            job_stop_backoff(job);
            if (job->attempt)
                attempt_detach(TAKE_POINTER(job->attempt));
        }
    }
    early_changes_stop(jobs);
    transitions_stop(jobs);
    dispatch_stop(jobs);
    decide_stop(jobs);
    jobs_headroom_stop(jobs);
    job_logs_stop(jobs);
    notices_stop(jobs);
    calibrator_stop(jobs);
    job_graph_stop(jobs);
    start_times_stop(jobs);
    schedules_stop(jobs);
    samples_stop(jobs);
}

void jobs_free(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;

    if (!jobs)
        return;
    for (size_t i = 0; i < jobs->table->bucket_count; i++) {
        struct job *job = jobs->table->buckets[i];

        while (job) {
            struct job *next = job->next_in_bucket;

            job_free(jobs, job);
            job = next;
        }
    }
    planning_turns_free(jobs);
    recent_plans_free(jobs);
    notify_queue_free(jobs);
    samples_free(jobs);
    transitions_free(jobs);
    job_graph_free(jobs);
    start_times_free(jobs);
    schedules_free(jobs);
    groups_free(jobs);
    sweeps_free(jobs);
    job_users_free(jobs);
    calibrator_free(jobs);
    forecast_free(jobs);
    free(jobs->history);
    free(jobs->details_reads);
    early_changes_free(jobs);
    free(jobs->dispatch);
    free(jobs->decider);
    free(jobs->headroom);
    free(jobs->begin_reads);
    free(jobs->logs);
    job_table_release(jobs->table);
    job_classes_release(jobs->classes);
    workload_table_release(jobs->workloads);
    predictions_release(jobs->predictions);
    calibrations_release(jobs->calibrations);
    suspension_costs_free(jobs->suspension_costs);
    job_needs_table_release(jobs->needs);
    jobs_snapshot_release(jobs->snapshot);
    free(daemon->shim_path);
    free(daemon->suspend_path);
    free(daemon->worker_path);
    free(jobs); /* with the containers: struct jobs_memory */
    daemon->jobs = NULL;
}
