/* jobs.c: the table of live jobs: submission, cancelling, questions about them. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/attempts/removed_folders.h"
#include "daemon/jobs/device_backends.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/job_logs.h"
#include "daemon/jobs/notices.h"
#include "daemon/jobs/notify.h"
#include "daemon/jobs/store.h"
#include "daemon/jobs/sweeps.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- users ----------------------------------------------------------------------------------- */

static struct user_jobs *user_find(struct jobs *jobs, uid_t uid)
{
    for (size_t i = 0; i < jobs->user_count; i++)
        if (jobs->users[i].uid == uid)
            return &jobs->users[i];
    return NULL;
}

static void user_count_change(struct jobs *jobs, uid_t uid, int change)
{
    struct user_jobs *user = user_find(jobs, uid), *grown;

    if (!user) {
        grown = realloc(jobs->users, (jobs->user_count + 1) * sizeof *grown);
        if (!grown)
            return;
        jobs->users = grown;
        user = &grown[jobs->user_count++];
        *user = (struct user_jobs){.uid = uid};
    }
    user->count += (size_t)change;
}

void user_unmet_change(struct jobs *jobs, uid_t uid, int64_t change)
{
    struct user_jobs *user = user_find(jobs, uid);

    if (user)
        user->unmet += change;
}

static void job_free(struct jobs *jobs, struct job *job)
{
    job_links_free(jobs, job);
    job_needs_drop(&jobs->needs, job->needs);
    workload_drop(&jobs->workloads, job->workload);
    job_details_free(job->details);
    free(job);
}

/* ---- fair share ------------------------------------------------------------------------------ */

/* What a user had yesterday counts half. */
static const double usage_half_life_seconds = 86400;

static double usage_at(const struct user_jobs *user, double now)
{
    return user->usage * exp2(-fmax(now - user->usage_time, 0) / usage_half_life_seconds);
}

struct policy_user jobs_user(const struct jobs *jobs, size_t index)
{
    return (struct policy_user){.share = user_shares_weight(&jobs->shares, jobs->users[index].uid),
                                .usage = usage_at(&jobs->users[index], clock_now()),
                                .device_max = (int)jobs->daemon->config.devices_per_user};
}

void jobs_count_usage(struct jobs *jobs, const struct attempt *attempt)
{
    struct user_jobs *user = user_find(jobs, attempt->uid);
    double now = clock_now();

    /* by the daemon's clock: when it started, the job's user says */
    if (!user || attempt->started <= 0)
        return;
    user->usage = usage_at(user, now) + attempt->device_count * fmax(now - attempt->launched, 0);
    user->usage_time = now;
}

/* ---- entries --------------------------------------------------------------------------------- */

struct job *job_new(struct jobs *jobs, const struct job_submission *submission)
{
    struct job *job = calloc(1, sizeof *job);

    if (job)
        job->needs = job_needs_take(&jobs->needs, submission->needs);
    if (job && job->needs)
        job->workload = workload_take(&jobs->workloads, submission->uid, submission->kind,
                                      submission->plan_digest);
    if (!job || !job->workload) {
        if (job)
            job_needs_drop(&jobs->needs, job->needs);
        free(job);
        return NULL;
    }
    job->id = submission->id;
    job->uid = submission->uid;
    job->kind = (uint8_t)submission->kind;
    job->priority = submission->priority;
    job->state = JOB_QUEUED;
    if (job_table_add(&jobs->table, job) < 0) {
        job_free(jobs, job);
        return NULL;
    }
    jobs->busy = true;
    if (job->id > jobs->last_job)
        jobs->last_job = job->id;
    user_count_change(jobs, job->uid, 1);
    if (job->workload->references == 1)
        jobs_history_load(jobs, job->workload, job->id);
    return job;
}

void job_mark_ended(struct jobs *jobs, struct job *job)
{
    job->ended = true;
    user_count_change(jobs, job->uid, -1);
}

static void on_backoff_closed(uv_handle_t *handle)
{
    free(handle);
}

static void job_stop_backoff(struct job *job)
{
    if (!job->backoff)
        return;
    uv_close((uv_handle_t *)job->backoff, on_backoff_closed);
    job->backoff = NULL;
}

double job_backoff_end(const struct job *job)
{
    return job->backoff ? clock_now() + (double)uv_timer_get_due_in(job->backoff) / 1000 : 0;
}

void job_dequeue(struct jobs *jobs, struct job *job)
{
    job_classes_remove(&jobs->classes, job);
    job_queue_remove(job);
}

void job_forget(struct jobs *jobs, struct job *job)
{
    job_stop_backoff(job);
    job_dequeue(jobs, job);
    job_graph_forget(jobs, job);
    job_table_remove(&jobs->table, job);
    if (!job->ended)
        user_count_change(jobs, job->uid, -1);
    job_free(jobs, job);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void job_set_waiting(struct jobs *jobs, struct job *job, enum wait_reason wait_reason,
                     const char *reason, const char *decision)
{
    struct transition *transition;

    if (job->wait_reason == wait_reason)
        return;
    transition = transition_new(jobs, job);
    transition->changes_wait = true;
    transition->wait_reason = wait_reason;
    snprintf(transition->reason, sizeof transition->reason, "%s", reason);
    transition->decision = decision ? strdup(decision) : NULL;
    job->wait_reason = (uint8_t)wait_reason;
    transition_store(transition);
}

void job_take_from_queues(struct jobs *jobs, struct job *job)
{
    job_stop_backoff(job);
    job_classes_remove(&jobs->classes, job);
    job_queue_remove(job);
    job_graph_rest(jobs, job);
    job->waited += job->waits_since > 0 ? clock_now() - job->waits_since : 0;
    job->waits_since = 0;
}

static void job_enqueue(struct jobs *jobs, struct job *job)
{
    bool needs_plan =
        job->kind == JOB_NATIVE && !(job->workload->planned && plan_is_whole(jobs, job, NULL));
    int result;

    if (job->state == JOB_PAUSED) /* whatever comes for it, it waits to be resumed */
        return;
    if (!job_graph_admits(jobs, job))
        return;
    if (job->waits_since == 0) /* for a device: what holds it back before makes it no older */
        job->waits_since = clock_now();
    result = needs_plan ? planning_queue(jobs, job) : job_classes_add(&jobs->classes, job);
    if (result < 0) {
        log_error("not enough memory to queue job %lld; ending", (long long)job->id);
        abort();
    }
}

static void on_backoff_over(uv_timer_t *timer)
{
    struct job *job = timer->data;
    struct jobs *jobs = ((struct daemon *)timer->loop->data)->jobs;

    job_stop_backoff(job);
    job_enqueue(jobs, job);
    jobs_plan(jobs);
    jobs_dispatch(jobs);
}

void job_queue_after(struct jobs *jobs, struct job *job, double delay)
{
    if (delay > 0) {
        job_graph_rest(jobs, job);
        job->backoff = malloc(sizeof *job->backoff);
        if (job->backoff) {
            uv_timer_init(jobs->daemon->loop, job->backoff);
            job->backoff->data = job;
            uv_timer_start(job->backoff, on_backoff_over, (uint64_t)(delay * 1000), 0);
            return;
        }
    }
    job_enqueue(jobs, job);
}

void job_fail(struct jobs *jobs, struct job *job, const char *reason)
{
    struct transition *transition = transition_new(jobs, job);

    transition_set_state(transition, job, JOB_FAILED, WAIT_NONE, reason);
    transition_store(transition);
    job_forget(jobs, job);
}

void jobs_add(struct daemon *daemon, const struct job_submission *submission)
{
    struct jobs *jobs = daemon->jobs;
    struct job *job = job_new(jobs, submission);

    if (!job) {
        log_error("not enough memory for job %lld: it waits for the next start of traind",
                  (long long)submission->id);
        return;
    }
    /* the row says why already; at the head of the queue a command job gets a closer reason */
    job->wait_reason = submission->kind == JOB_NATIVE ? WAIT_PLANNING : WAIT_NONE;
    job_graph_add(jobs, job, submission);
    job_enqueue(jobs, job);
    jobs_plan(jobs);
    jobs_dispatch(jobs);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

void jobs_cancel(struct daemon *daemon, int64_t id, const char *reason, jobs_done done, void *data)
{
    struct jobs *jobs = daemon->jobs;
    struct job *job = job_table_find(&jobs->table, id);
    struct transition *transition;
    struct error error;

    if (!job && sweep_cancel_point(daemon, id, reason, done, data))
        return;
    if (!job || job->ended) {
        error_set(&error, -ESRCH, "job %lld has ended already", (long long)id);
        if (done)
            done(data, -ESRCH, &error);
        return;
    }
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_CANCELLED, WAIT_NONE, reason ? reason : "cancelled");
    transition->done = done;
    transition->done_data = data;
    if (job->attempt && !job->attempt->planning) {
        transition->attempt_change = ATTEMPT_INTEND;
        transition->ending = ENDING_CANCELLED;
    }
    transition_store(transition);
    planning_forget(jobs, id);
    if (!job->attempt) {
        job_forget(jobs, job);
        jobs_plan(jobs);
        jobs_dispatch(jobs);
        return;
    }
    /* it stays until its processes are gone: the device is not free before */
    job_mark_ended(jobs, job);
    attempt_stop(job->attempt, ENDING_CANCELLED);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool jobs_progress(const struct daemon *daemon, int64_t id, struct job_progress *progress)
{
    const struct job *job = job_table_find(&daemon->jobs->table, id);

    if (!job || !job->attempt || job->attempt->planning || !job->attempt->has_progress)
        return false;
    *progress = job->attempt->progress;
    return true;
}

size_t jobs_count_of_user(const struct daemon *daemon, uid_t uid)
{
    struct user_jobs *user = user_find(daemon->jobs, uid);

    return user ? user->count : 0;
}

int64_t jobs_dependencies_of_user(const struct daemon *daemon, uid_t uid)
{
    struct user_jobs *user = user_find(daemon->jobs, uid);

    return user ? user->unmet : 0;
}

/* Jobs that wait and could run on a device that their plan does not know are planned again. */
void jobs_backends_known(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;

    for (size_t i = 0; i < jobs->table.bucket_count; i++) {
        for (struct job *job = jobs->table.buckets[i]; job; job = job->next_in_bucket) {
            if (!job->class || job->kind != JOB_NATIVE || plan_is_whole(jobs, job, NULL))
                continue;
            job_classes_remove(&jobs->classes, job);
            job_queue_after(jobs, job, 0);
        }
    }
    jobs_plan(daemon->jobs);
    jobs_dispatch(daemon->jobs);
    calibrator_tend(daemon->jobs);
}

/* ---- start and end --------------------------------------------------------------------------- */

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
    device_backends_ask(daemon);
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
