/* jobs.c: the table of live jobs: submission, cancelling, questions about them. */
#include "base/file.h"
#include "base/log.h"
#include "daemon/jobs_graph.h"
#include "daemon/jobs_store.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- entries --------------------------------------------------------------------------------- */

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

struct job *job_new(struct jobs *jobs, int64_t id, uid_t uid, enum job_kind kind, int priority)
{
    struct job *job = calloc(1, sizeof *job);

    if (!job)
        return NULL;
    job->id = id;
    job->uid = uid;
    job->kind = (uint8_t)kind;
    job->priority = priority;
    job->state = JOB_QUEUED;
    if (job_table_add(&jobs->table, job) < 0) {
        free(job);
        return NULL;
    }
    if (id > jobs->last_job)
        jobs->last_job = id;
    user_count_change(jobs, uid, 1);
    return job;
}

void job_mark_ended(struct jobs *jobs, struct job *job)
{
    job->ended = true;
    user_count_change(jobs, job->uid, -1);
}

void job_details_free(struct job_details *details)
{
    if (!details)
        return;
    json_object_put(details->spec);
    free(details->allowed);
    free(details);
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

void job_forget(struct jobs *jobs, struct job *job)
{
    job_stop_backoff(job);
    job_queue_remove(job);
    job_graph_forget(jobs, job);
    job_table_remove(&jobs->table, job);
    if (!job->ended)
        user_count_change(jobs, job->uid, -1);
    job_details_free(job->details);
    free(job);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void job_set_waiting(struct jobs *jobs, struct job *job, enum wait_reason wait_reason,
                     const char *reason)
{
    struct transition *transition;

    if (job->wait_reason == wait_reason)
        return;
    transition = transition_new(jobs, job);
    transition->changes_wait = true;
    transition->wait_reason = wait_reason;
    snprintf(transition->reason, sizeof transition->reason, "%s", reason);
    job->wait_reason = (uint8_t)wait_reason;
    transition_store(transition);
}

static void job_enqueue(struct jobs *jobs, struct job *job)
{
    bool needs_plan = job->kind == JOB_NATIVE && !job->planned;

    if (!job_graph_admits(jobs, job))
        return;
    if (job_queue_push(needs_plan ? &jobs->unplanned : &jobs->ready, job) < 0) {
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
    struct job *job =
        job_new(jobs, submission->id, submission->uid, submission->kind, submission->priority);

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

size_t jobs_on_device(const struct daemon *daemon, const char *name, int64_t *ids, size_t limit,
                      uint64_t *memory_booked)
{
    const struct jobs *jobs = daemon->jobs;
    size_t count = 0;

    *memory_booked = 0;
    if (strcmp(name, "cpu") != 0)
        return 0;
    *memory_booked = jobs->memory_booked;
    for (size_t i = 0; i < jobs->running_count && count < limit; i++)
        ids[count++] = jobs->running[i]->job_id;
    return count;
}

struct jobs_programs jobs_programs(const struct daemon *daemon)
{
    return (struct jobs_programs){.shim = daemon->jobs->shim_path,
                                  .worker = daemon->jobs->worker_path};
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
    uv_timer_init(daemon->loop, &jobs->memory_timer);
    uv_timer_init(daemon->loop, &jobs->store_timer);
    jobs->memory_timer.data = jobs->store_timer.data = jobs;
    jobs->shim_path = file_beside_program("traind-shim");
    jobs->worker_path = file_beside_program("traind-worker");
    if (!jobs->shim_path || !jobs->worker_path)
        return error_set(error, -ENOENT, "cannot find out where traind's own program lies");
    if (job_graph_start(jobs) < 0)
        return error_set(error, -ENOMEM, "not enough memory for the graph of jobs");
    /* Shims tell their end over their sockets; the kernel may reap them. */
    signal(SIGCHLD, SIG_IGN);
    jobs_recover(jobs);
    return 0;
}

void jobs_stop(struct daemon *daemon)
{
    struct jobs *jobs = daemon->jobs;

    if (!jobs || jobs->stopping)
        return;
    jobs->stopping = true;
    for (size_t i = 0; i < jobs->table.bucket_count; i++) {
        for (struct job *job = jobs->table.buckets[i]; job; job = job->next_in_bucket) {
            job_stop_backoff(job);
            if (job->attempt)
                attempt_detach(TAKE_POINTER(job->attempt));
        }
    }
    transitions_detach(jobs);
    uv_close((uv_handle_t *)&jobs->memory_timer, NULL);
    uv_close((uv_handle_t *)&jobs->store_timer, NULL);
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

            job_details_free(job->details);
            job_links_free(job);
            free(job);
            job = next;
        }
    }
    for (size_t i = 0; i < PLANNING_AT_ONCE; i++)
        free(jobs->planning[i].waiting);
    transitions_release(jobs);
    job_graph_free(jobs);
    job_table_release(&jobs->table);
    job_queue_release(&jobs->ready);
    job_queue_release(&jobs->unplanned);
    free(jobs->running);
    free(jobs->users);
    free(jobs->shim_path);
    free(jobs->worker_path);
    free(jobs);
    daemon->jobs = NULL;
}
