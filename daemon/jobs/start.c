/* start.c: see start.h. The transition to `starting` is stored while the shim is already being
 * started. If the daemon is killed in between, the next one finds the attempt by its folder
 * (recovery.c). */
#include "daemon/jobs/start.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/early_changes.h"
#include "daemon/jobs/end.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/searches.h"
#include "daemon/jobs/sharing.h"
#include "daemon/jobs/suspend.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/trial.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/spool_store.h"
#include "daemon/store/store.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct attempt *job_bind_attempt(struct jobs *jobs, struct job *job, int64_t number,
                                 const struct attempt_events *events)
{
    return job->attempt = attempt_new(jobs->daemon, events, job, number);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Fetches the checkpoint from which a retry goes on, and the best one if that is another, before
 * the start. */
struct resume_read {
    struct jobs *jobs;
    int64_t id, attempt;
    uid_t uid;
    char *path, *best; /* owned; best is NULL if there is none */
    struct checkpoint_restore restore;
    bool restores_best, more;
    struct resume_read *next;
};

/* The retries whose checkpoints are being fetched. */
struct resume_reads {
    struct resume_read *first;
    bool busy; /* a slice of the first one is being fetched */
};

static int best_read_work(struct store_connection *connection, struct resume_read *read)
{
    struct error error;
    int result = checkpoint_restore_next(connection, &read->restore, &error);

    read->more = result > 0;
    if (result < 0) {
        free(read->best); /* the run goes on without the test of its best weights */
        read->best = NULL;
    }
    return 0;
}

static int resume_read_work(struct store_connection *connection, void *data, struct error *error)
{
    struct resume_read *read = data;
    struct checkpoint_position last;
    int result;

    if (read->restores_best)
        return best_read_work(connection, read);
    result = checkpoint_restore_next(connection, &read->restore, error);
    read->more = result > 0;
    if (result != 0 || !read->best)
        return result < 0 ? result : 0;
    last = read->restore.position;
    checkpoint_restore_close(&read->restore);
    checkpoint_restore_init(&read->restore, read->jobs->daemon->state_directory, read->id,
                            read->uid, read->best, &last);
    read->restores_best = read->more = true;
    return 0;
}

/* After a lack of memory, with smaller batches. */
static void attempt_launch_now(struct jobs *jobs, struct job *job, char *resume, char *best)
{
    const struct device_claim *claim = &job->attempt->claim;
    char choices[PLAN_CHOICES_MAX] = "";

    if (claim->device_count > 0)
        workload_choices(job->workload, claim->devices[0], job->memory_failures > 0, choices);
    attempt_launch(job->attempt, job->details->spec, resume, best,
                   job_needs_threads(jobs->daemon, job->needs), choices);
    /* a training run is long: its specification need not stay in memory */
    json_object_put(job->details->spec);
    job->details->spec = NULL;
}

static void resume_read_end(struct resume_read *read, struct job *job, int result,
                            const struct error *error)
{
    checkpoint_restore_close(&read->restore);
    if (job) {
        if (result == 0 || result == -ENOENT)
            attempt_launch_now(read->jobs, job, result == 0 ? TAKE_POINTER(read->path) : NULL,
                               result == 0 ? TAKE_POINTER(read->best) : NULL);
        else /* for example a full disk: the job's progress is worth another try */
            attempt_refuse_launch(job->attempt, error);
    }
    if (read->path)
        unlink(read->path);
    if (read->best)
        unlink(read->best);
    free(read->path);
    free(read->best);
    free(read);
}

static void on_resume_read(void *data, int result, const struct error *error);

/* Fetches one slice at a time, and the retries take turns. So a large checkpoint delays neither
 * queries nor other starts. */
static void resume_reads_go_on(struct jobs *jobs)
{
    if (!jobs->resume_reads->first || jobs->resume_reads->busy)
        return;
    jobs->resume_reads->busy = true;
    store_read(jobs->daemon->store, resume_read_work, on_resume_read, jobs->resume_reads->first);
}

static void resume_read_queue(struct jobs *jobs, struct resume_read *read)
{
    struct resume_read **end = &jobs->resume_reads->first;

    while (*end)
        end = &(*end)->next;
    *end = read;
    read->next = NULL;
}

/* The job whose start waits for this read; NULL: none does any more. */
static struct job *resume_read_job(const struct resume_read *read)
{
    struct job *job = read->jobs->stopping ? NULL : job_table_find(read->jobs->table, read->id);

    return job && job->attempt && job->attempt_number == read->attempt ? job : NULL;
}

static void on_resume_read(void *data, int result, const struct error *error)
{
    struct resume_read *read = data;
    struct jobs *jobs = read->jobs;
    struct job *job = resume_read_job(read);

    jobs->resume_reads->first = read->next; /* the read was the first one */
    jobs->resume_reads->busy = false;
    if (result == 0 && read->more && job)
        resume_read_queue(jobs, read);
    else
        resume_read_end(read, job, result, error);
    resume_reads_go_on(jobs); /* when the program ends, each read finds that no job waits */
}

/* The path of a file that will be moved into the attempt's folder. */
static char *launch_file_name(const struct jobs *jobs, const struct job *job, const char *what)
{
    return memory_format("%s/jobs/%lld.%s-%d", jobs->daemon->state_directory, (long long)job->id,
                         what, (int)job->attempt_number);
}

static void job_launch(struct jobs *jobs, struct job *job)
{
    struct resume_read *read;

    if (job->kind == JOB_NATIVE && job->attempt_number > 1) {
        read = memory_zero(sizeof *read);
        read->path = launch_file_name(jobs, job, "resume");
        read->best = launch_file_name(jobs, job, "best");
        read->jobs = jobs;
        read->id = job->id;
        read->attempt = job->attempt_number;
        read->uid = job->uid;
        checkpoint_restore_init(&read->restore, jobs->daemon->state_directory, read->id, read->uid,
                                read->path, NULL);
        resume_read_queue(jobs, read);
        resume_reads_go_on(jobs);
        return;
    }
    attempt_launch_now(jobs, job, NULL, NULL);
}

void job_start(struct jobs *jobs, struct job *job, struct device *const *devices, int count,
               const char *reason, const char *decision)
{
    struct transition *transition;
    struct attempt *attempt;

    if (job_is_suspended(job)) {
        job_go_on(jobs, job, devices, count, reason, decision);
        return;
    }
    job_classes_remove(jobs->classes, job);
    job->waited += job->waits_since > 0 ? clock_now() - job->waits_since : 0;
    job->waits_since = 0;
    job->attempt_number++;
    attempt = job_bind_attempt(jobs, job, job->attempt_number, &job_running_events);
    attempt->time_limit = job->details->time_limit;
    memcpy(attempt->claim.devices, devices, (size_t)count * sizeof *devices);
    attempt->claim.device_count = count;
    jobs_book(jobs, attempt, job_memory(job, devices[0]));
    device_claim_begin_energy(jobs->daemon, &attempt->claim);
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_STARTING, WAIT_NONE, reason);
    devices_name((const struct device *const *)devices, count, transition->update.device,
                 sizeof transition->update.device);
    transition->update.decision = memory_copy_text(decision);
    transition->update.attempt_change = ATTEMPT_BEGIN;
    transition->update.attempt_started = transition->update.time;
    transition_store(transition);
    job_launch(jobs, job);
}

static void on_started(struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct job *job = attempt->job;
    struct transition *transition;

    if (job && attempt->link.sought) { /* found after a restart: it may be moved from now on */
        early_changes_found(jobs, job->id);
        jobs_dispatch(jobs);
    }
    if (!job || job->state != JOB_STARTING ||
        attempt->suspension.state !=
            SUSPENSION_NONE) /* it was cancelled meanwhile, or found after a
                                                       * restart, or is not restored yet */
        return;
    job->launch_failures = 0;
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_RUNNING, WAIT_NONE, "");
    transition->update.keeps_reason = true;
    transition->update.started = transition->update.attempt_started = attempt->started;
    transition->update.attempt_change = ATTEMPT_RUN;
    transition->update.pid = attempt->claim.pid;
    transition_store(transition);
    search_job_started(jobs, job);
}

static void on_metrics_stored(struct attempt *attempt)
{
    search_job_measured(attempt->daemon->jobs, attempt->job);
}

/* A job that shares its device through a service gets the folder of the service. */
static void on_prepare(struct attempt *attempt)
{
    if (attempt->job->kind == JOB_NATIVE && attempt->claim.device_count == 1)
        sharing_join(attempt, attempt->launch.spec, attempt->launch.sharing_folder);
}

const struct attempt_events job_running_events = {.prepare = on_prepare,
                                                  .started = on_started,
                                                  .measured = trial_observe_steps,
                                                  .metrics_stored = on_metrics_stored,
                                                  .suspension = job_suspension_heard,
                                                  .gone = job_attempt_gone,
                                                  .ended = job_attempt_ended};

void job_start_open(struct jobs *jobs)
{
    jobs->resume_reads = memory_zero(sizeof *jobs->resume_reads);
}
