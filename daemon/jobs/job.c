/* job.c: see job.h. */
#include "daemon/jobs/job.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/history.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/job_users.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/plan_devices.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>
#include <string.h>

void job_free(struct jobs *jobs, struct job *job)
{
    job_links_free(jobs, job);
    job_needs_drop(jobs->needs, job->needs);
    workload_drop(jobs->workloads, job->workload);
    job_details_free(job->details);
    free(job);
}

/* ---- entries --------------------------------------------------------------------------------- */

struct job *job_new(struct jobs *jobs, const struct job_submission *submission)
{
    struct job *job = memory_zero(sizeof *job);

    job->needs = job_needs_take(jobs->needs, submission->needs);
    if (job->needs)
        job->workload = workload_take(jobs->workloads, submission->uid, submission->kind,
                                      submission->plan_digest);
    if (!job->workload) {
        job_needs_drop(jobs->needs, job->needs);
        free(job);
        return NULL;
    }
    job->id = submission->id;
    job->uid = submission->uid;
    job->kind = (uint8_t)submission->kind;
    job->priority = submission->priority;
    job->put_first = submission->put_first;
    job->state = JOB_QUEUED;
    if (job_table_add(jobs->table, job) < 0) {
        job_free(jobs, job);
        return NULL;
    }
    jobs->busy = true;
    if (job->id > jobs->last_job)
        jobs->last_job = job->id;
    job_users_count(jobs, job->uid, 1);
    if (job->workload->references == 1 && jobs->loaded) /* else recovery.c has read it */
        history_load(jobs, job->workload, job->id);
    return job;
}

void job_mark_ended(struct jobs *jobs, struct job *job)
{
    job->ended = true;
    job_wait_forget(jobs->table, job);
    job_users_count(jobs, job->uid, -1);
}

static void on_backoff_closed(uv_handle_t *handle)
{
    free(handle);
}

void job_stop_backoff(struct job *job)
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
    job_classes_remove(jobs->classes, job);
    job_queue_remove(job);
}

void job_forget(struct jobs *jobs, struct job *job)
{
    job_stop_backoff(job);
    job_dequeue(jobs, job);
    job_graph_forget(jobs, job);
    job_table_remove(jobs->table, job);
    if (!job->ended)
        job_users_count(jobs, job->uid, -1);
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
    transition->update.changes_wait = true;
    transition->update.wait_reason = wait_reason;
    snprintf(transition->update.reason, sizeof transition->update.reason, "%s", reason);
    transition->update.decision = memory_copy_text(decision);
    job->wait_reason = (uint8_t)wait_reason;
    transition_store(transition);
}

void job_take_from_queues(struct jobs *jobs, struct job *job)
{
    job_stop_backoff(job);
    job_classes_remove(jobs->classes, job);
    job_queue_remove(job);
    job_graph_rest(jobs, job);
    job_wait_end(jobs->table, job, clock_now());
}

static void job_enqueue(struct jobs *jobs, struct job *job)
{
    bool needs_plan = job->kind == JOB_NATIVE &&
                      !(job->workload->planned && plan_devices_are_covered(jobs, job, NULL));
    int result;

    if (job->state == JOB_PAUSED || job->frozen) /* until it is resumed, or its edit is done */
        return;
    if (!job_graph_admits(jobs, job)) {
        if (jobs->loaded) /* its edit may have given it something else to wait for */
            job_wait_end(jobs->table, job, clock_now());
        return;
    }
    job_wait_begin(jobs->table, job, clock_now()); /* for a device; earlier waits do not count */
    result = needs_plan ? planning_turns_queue(jobs, job) : job_classes_add(jobs->classes, job);
    if (result < 0) /* it is acknowledged already */
        memory_exhausted(0);
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
        job->backoff = memory_allocate(sizeof *job->backoff);
        uv_timer_init(jobs->daemon->loop, job->backoff);
        job->backoff->data = job;
        uv_timer_start(job->backoff, on_backoff_over, (uint64_t)(delay * 1000), 0);
        return;
    }
    job_enqueue(jobs, job);
}

void job_queue_anew(struct jobs *jobs, int64_t id)
{
    struct job *job = job_table_find(jobs->table, id);

    if (!job || !job->class)
        return;
    job_dequeue(jobs, job);
    job_queue_after(jobs, job, 0);
}

void job_fail(struct jobs *jobs, struct job *job, const char *reason, const char *decision)
{
    struct transition *transition = transition_new(jobs, job);

    transition_set_state(transition, job, JOB_FAILED, WAIT_NONE, reason);
    transition->update.decision = memory_copy_text(decision);
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
    /* the row already says why it waits; a decision gives a command a more exact reason */
    job->wait_reason = submission->kind == JOB_NATIVE ? WAIT_PLANNING : WAIT_NONE;
    job_graph_add(jobs, job, submission);
    job_enqueue(jobs, job);
    jobs_plan(jobs);
    jobs_dispatch(jobs);
    watches_job_changed(&daemon->watches, submission->id);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

void job_cancel(struct jobs *jobs, struct job *job, const char *reason, jobs_done done, void *data)
{
    struct transition *transition;

    if (job_is_suspended(job))
        job_take_from_queues(jobs, job);
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_CANCELLED, WAIT_NONE, reason ? reason : "cancelled");
    transition->done = done;
    transition->done_data = data;
    if (job->attempt && !job->attempt->planning)
        transition_stop(transition, job, ENDING_CANCELLED);
    transition_store(transition);
    planning_turns_forget(jobs, job->id);
    if (!job->attempt) {
        job_forget(jobs, job);
        jobs_plan(jobs);
        jobs_dispatch(jobs);
        return;
    }
    /* it stays in memory until its processes are gone, for its device is not free before */
    job_mark_ended(jobs, job);
    if (job->attempt->planning)
        attempt_stop(job->attempt, ENDING_CANCELLED);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool jobs_progress(const struct daemon *daemon, int64_t id, struct job_progress *progress)
{
    const struct job *job = job_table_find(daemon->jobs->table, id);

    if (!job || !job->attempt || job->attempt->planning || !job->attempt->report.has_progress)
        return false;
    *progress = job->attempt->report.progress;
    return true;
}
