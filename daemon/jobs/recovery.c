/* recovery.c: see recovery.h. After a restart every job that has not ended is loaded, and the
 * daemon searches for every attempt without a stored end.
 *
 * A row may be behind its job: a shim is started while the transition to `starting` is not on disk
 * yet. So for every queued job the folder of its next attempt is looked up. If there is one, the
 * job has started. */
#include "daemon/jobs/recovery.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/sharing_leftovers.h"
#include "daemon/devices/driver.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/graph_load.h"
#include "daemon/jobs/history.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/move.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/schedules.h"
#include "daemon/jobs/start.h"
#include "daemon/jobs/suspend.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/command_history_rows.h"
#include "daemon/store/live_rows.h"
#include "daemon/store/store.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"
#include "proto/attempt_files.h"
#include "proto/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_AGAIN_MILLISECONDS = 1000 };

/* Facts from the attempt.json that was written at the launch. */
struct launched_as {
    char *device;                           /* where it was started; owned; NULL: not known */
    const struct device_sharing *shared_by; /* its service; NULL: none */
};

struct loaded_job {
    struct live_job row;
    bool has_folder;                /* there is a folder of an attempt that the row does not know */
    double launched;                /* when that folder was made */
    struct launched_as launched_as; /* of that attempt */
    char *plan;                     /* owned; only the first job with the plan has it */
};

struct loaded_attempt {
    struct live_attempt row;
    const struct device_sharing *shared_by; /* its service; NULL: none */
    struct job_details *details;            /* owned; NULL: they are read again */
};

/* A row of the earlier runs of a command. */
struct loaded_history {
    int64_t job; /* the first one that runs it */
    struct command_history_row row;
};

struct load {
    struct jobs *jobs;
    struct loaded_job *found;
    size_t count, capacity;
    struct loaded_attempt *attempts;
    size_t attempt_count, attempt_capacity;
    struct loaded_history *histories; /* in the order of the jobs' ids */
    size_t history_count, history_capacity;
    size_t next_history; /* where restore_history() goes on */
    size_t planned;      /* index of the job at which load_plan() goes on */
    struct graph_load *graph;
    struct schedule_row *schedules;
    size_t schedule_count;
    struct sharing_leftovers *leftovers;
};

/* ---- on the storage thread ------------------------------------------------------------------- */

/* Room for one more element; the array grows by doubling. */
static int array_reserve(void **array, size_t count, size_t *capacity, size_t size)
{
    size_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown;

    if (count < *capacity)
        return 0;
    grown = realloc(*array, wanted * size);
    if (!grown)
        return -ENOMEM;
    *array = grown;
    *capacity = wanted;
    return 0;
}

static int load_job(void *data, struct live_job *row)
{
    struct load *load = data;
    int result =
        array_reserve((void **)&load->found, load->count, &load->capacity, sizeof *load->found);

    if (result == 0)
        load->found[load->count++] = (struct loaded_job){.row = *row};
    return result;
}

/* Attaches a plan to its job; jobs and plans both come in the order of ids. */
static void load_plan(void *data, int64_t job, const char *plan)
{
    struct load *load = data;

    while (load->planned < load->count && load->found[load->planned].row.id < job)
        load->planned++;
    if (load->planned < load->count && load->found[load->planned].row.id == job)
        load->found[load->planned].plan = memory_copy_text(plan);
}

static int load_history(void *data, int64_t job, const struct command_history_row *row)
{
    struct load *load = data;
    int result = array_reserve((void **)&load->histories, load->history_count,
                               &load->history_capacity, sizeof *load->histories);

    if (result == 0)
        load->histories[load->history_count++] = (struct loaded_history){.job = job, .row = *row};
    return result;
}

static int load_attempt(void *data, struct live_attempt *row)
{
    struct load *load = data;
    int result = array_reserve((void **)&load->attempts, load->attempt_count,
                               &load->attempt_capacity, sizeof *load->attempts);

    if (result == 0)
        load->attempts[load->attempt_count++] = (struct loaded_attempt){.row = *row};
    return result;
}

static struct launched_as read_launch(const struct load *load, int64_t job, int64_t number)
{
    JSON_AUTO struct json_object *attempt = NULL;
    const char *device;

    if (attempt_read_beside(load->jobs->daemon->state_directory, job, number, ATTEMPT_CONFIG_SUFFIX,
                            &attempt) < 0)
        return (struct launched_as){0};
    device = json_get_string(attempt, "device", NULL);
    return (struct launched_as){.device = memory_copy_text(device),
                                .shared_by =
                                    devices_record_sharing(load->jobs->daemon->devices, attempt)};
}

/* When the folder was made, which no user can change. If the file system does not record it, when
 * the job was submitted. */
static double folder_birth(int folder, const struct loaded_job *job)
{
    struct statx status;

    if (statx(folder, "", AT_EMPTY_PATH, STATX_BTIME, &status) < 0 ||
        !(status.stx_mask & STATX_BTIME))
        return job->row.submitted;
    return (double)status.stx_btime.tv_sec + 1e-9 * status.stx_btime.tv_nsec;
}

/* Finds out which running native attempts are clients of MPS. */
static void look_for_clients(struct load *load)
{
    for (size_t i = 0; i < load->attempt_count; i++) {
        struct loaded_attempt *attempt = &load->attempts[i];
        struct launched_as launched = {0};

        if (attempt->row.kind == JOB_NATIVE)
            launched = read_launch(load, attempt->row.job, attempt->row.number);
        attempt->shared_by = launched.shared_by;
        free(launched.device);
    }
}

static void look_for_folders(struct load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        struct loaded_job *job = &load->found[i];
        AUTO_CLOSE int folder = -1;

        if (job->row.state != JOB_QUEUED)
            continue;
        folder = attempt_folder_open(load->jobs->daemon->state_directory, job->row.id,
                                     job->row.attempt + 1, NULL);
        if (folder < 0)
            continue;
        job->has_folder = true;
        job->launched = folder_birth(folder, job);
        job->launched_as = read_launch(load, job->row.id, job->row.attempt + 1);
    }
}

/* Reads whether running jobs save their state, and more that even the first call asks for. */
static void load_details(struct store_connection *connection, struct load *load)
{
    for (size_t i = 0; i < load->attempt_count; i++) {
        struct details_read read = {.id = load->attempts[i].row.job};

        if (details_read_work(connection, &read, NULL) == 0)
            load->attempts[i].details = read.details;
        json_object_put(read.plan);
    }
}

static int load_work(struct store_connection *connection, void *data, struct error *error)
{
    struct load *load = data;
    JSON_AUTO struct json_object *sharing = devices_sharing_names(load->jobs->daemon->devices);
    int result = live_jobs_read(connection, json_text(sharing, NULL), load_job, load, error);

    if (result == 0)
        result = live_plans_read(connection, load_plan, load, error);
    if (result == 0)
        result = command_histories_live_read(connection, load_history, load, error);
    if (result == 0)
        result = live_attempts_read(connection, load_attempt, load, error);
    if (result == 0)
        result = schedules_read(connection, &load->schedules, &load->schedule_count, error);
    if (result == 0) {
        load_details(connection, load);
        look_for_folders(load);
        look_for_clients(load);
    }
    if (result == 0) {
        attempts_clear_groups(load->jobs->daemon->state_directory);
        sharing_leftovers_find(load->jobs->daemon->state_directory, &load->leftovers);
    }
    if (result == 0 && !(load->graph = job_graph_read(connection, error)))
        return error->code;
    return result;
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void load_free(struct load *load)
{
    for (size_t i = 0; i < load->attempt_count; i++) {
        live_attempt_release(&load->attempts[i].row);
        job_details_free(load->attempts[i].details);
    }
    for (size_t i = 0; i < load->count; i++) {
        free(load->found[i].row.needs);
        free(load->found[i].plan);
        free(load->found[i].launched_as.device);
    }
    for (size_t i = 0; i < load->schedule_count; i++)
        schedule_row_release(&load->schedules[i]);
    free(load->schedules);
    graph_load_free(load->graph);
    sharing_leftovers_free(load->leftovers);
    free(load->attempts);
    free(load->histories);
    free(load->found);
    free(load);
}

/* Reads the job's details before it attaches to the attempt, where they could not be read with all
 * others. They are needed when the attempt ends, and the time limit before that. */
struct attach_read {
    struct details_read read;
    struct attempt *attempt;
};

static void attempt_read_details(struct jobs *jobs, struct attempt *attempt);

static void on_read_again(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;

    attempt_read_details(attempt->daemon->jobs, attempt);
}

/* Takes over `details`. */
static void attempt_take_details(struct attempt *attempt, struct job_details *details)
{
    attempt->time_limit = details->time_limit;
    job_details_free(attempt->job->details);
    attempt->job->details = details;
}

static void on_attach_details(void *data, int result, const struct error *error)
{
    struct attach_read *attach = data;
    struct jobs *jobs = attach->read.jobs;
    struct job *job = jobs->stopping ? NULL : job_table_find(jobs->table, attach->read.id);

    if (result < 0 && job)
        log_warning("job %lld: its specification cannot be read: %s", (long long)job->id,
                    error->text);
    if (job && job->attempt == attach->attempt) {
        if (result == 0)
            attempt_take_details(attach->attempt, TAKE_POINTER(attach->read.details));
        if (result < 0 &&
            result != -EINVAL) /* -EINVAL: it is damaged, so reading it again does not help */
            attempt_timer_start(attach->attempt, &attach->attempt->link.seek, on_read_again,
                                READ_AGAIN_MILLISECONDS);
        else
            attempt_attach(attach->attempt);
    }
    job_details_free(attach->read.details);
    json_object_put(attach->read.plan);
    free(attach);
}

static void attempt_read_details(struct jobs *jobs, struct attempt *attempt)
{
    struct attach_read *attach = memory_zero(sizeof *attach);

    attach->read.jobs = jobs;
    attach->read.id = attempt->job_id;
    attach->attempt = attempt;
    store_read(jobs->daemon->store, details_read_work, on_attach_details, attach);
}

/* Takes over `details`; NULL: they are not known yet. */
static void attempt_look_for(struct jobs *jobs, struct job *job, struct attempt *attempt,
                             const char *device, struct job_details *details)
{
    attempt->link.sought = true;
    attempt->claim.device_count =
        devices_parse(jobs->daemon->devices, device ? device : DEVICE_HOST, attempt->claim.devices,
                      JOB_DEVICES_MAX);
    if (attempt->claim.device_count && attempt->claim.devices[0]->driver->watch)
        attempt->claim.adopted = clock_now(); /* readings to come tell what it holds */
    jobs_book(jobs, attempt,
              attempt->claim.device_count ? job_memory(job, attempt->claim.devices[0]) : 0);
    if (!details) {
        attempt_read_details(jobs, attempt);
        return;
    }
    attempt_take_details(attempt, details);
    attempt_attach(attempt);
}

static void attempt_restore_progress(struct attempt *attempt, const char *start)
{
    JSON_AUTO struct json_object *record = NULL;

    if (!start || json_parse(start, strlen(start), &record, NULL) < 0)
        return;
    attempt->report.progress.steps = json_get_int(record, "steps", -1);
    attempt->report.progress.epochs = json_get_int(record, "epochs", -1);
    device_claim_take_start(&attempt->claim, record);
}

static void restore_attempt(struct jobs *jobs, struct loaded_attempt *loaded)
{
    struct job *job = job_table_find(jobs->table, loaded->row.job);
    struct attempt *attempt;

    if (!job) { /* the job was cancelled, but its processes may remain */
        struct job_submission submission = {
            .id = loaded->row.job, .uid = loaded->row.uid, .kind = loaded->row.kind, .needs = "{}"};

        job = job_new(jobs, &submission);
        if (!job)
            return;
        job_mark_ended(jobs, job);
        job_table_set_state(jobs->table, job, loaded->row.job_state);
        job->attempt_number = (int32_t)loaded->row.number;
    }
    attempt = job_bind_attempt(jobs, job, loaded->row.number, &job_running_events);
    attempt->launched = attempt->started = loaded->row.started;
    attempt->report.message = TAKE_POINTER(loaded->row.message);
    attempt->report.error_recorded = attempt->report.message != NULL;
    attempt->spool.position.offset = loaded->row.offset;
    attempt->spool.position.n = loaded->row.n;
    attempt->report.resumed_from_step = loaded->row.resumed_from_step;
    if (job->state != JOB_STARTING &&
        job->state != JOB_RUNNING) /* else that of a suspension before */
        attempt->preemption = loaded->row.preemption;
    attempt->suspension.suspended = loaded->row.suspended;
    memcpy(attempt->report.disagrees_with, loaded->row.disagrees_with,
           sizeof attempt->report.disagrees_with);
    attempt->intent = job->ended ? ENDING_CANCELLED : loaded->row.ending;
    attempt->claim.shared_by = loaded->shared_by;
    attempt_restore_progress(attempt, loaded->row.start);
    if (job->state == JOB_PREEMPTING && attempt->intent == ENDING_NONE) /* whoever was asked */
        attempt->suspension.state = SUSPENSION_BEGINS;
    if (!job->ended && (job->state == JOB_QUEUED || job->state == JOB_PAUSED)) {
        job_suspension_restore(jobs, job, attempt, loaded->row.device);
        attempt_look_for(jobs, job, attempt, DEVICE_HOST, TAKE_POINTER(loaded->details));
        return;
    }
    attempt_look_for(jobs, job, attempt, loaded->row.device, TAKE_POINTER(loaded->details));
}

/* For a job whose shim was started by a daemon that was killed before the start was on disk. */
static void restore_unstored_start(struct jobs *jobs, struct job *job,
                                   const struct loaded_job *loaded)
{
    const char *device = loaded->launched_as.device;
    struct transition *transition;
    struct attempt *attempt;

    job->attempt_number++;
    attempt = job_bind_attempt(jobs, job, job->attempt_number, &job_running_events);
    attempt->launched = loaded->launched;
    attempt->claim.shared_by = loaded->launched_as.shared_by;
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_STARTING, WAIT_NONE,
                         "found started after a restart of traind");
    snprintf(transition->update.device, sizeof transition->update.device, "%s",
             device ? device : DEVICE_HOST);
    transition->update.attempt_change = ATTEMPT_BEGIN;
    transition->update.attempt_started = transition->update.time;
    transition_store(transition);
    attempt_look_for(jobs, job, attempt, device, NULL);
}

static void restore_plan(struct job *job, const char *text)
{
    JSON_AUTO struct json_object *plan = NULL;

    if (text && json_parse(text, strlen(text), &plan, NULL) == 0)
        workload_set_plan(job->workload, plan);
}

/* Before the running jobs are booked and the first decision is made, so that neither takes the need
 * of a known command for unknown. */
static void restore_history(struct jobs *jobs, struct job *job, struct load *load)
{
    struct command_history_row rows[COMMAND_HISTORY_TYPES_MAX];
    int count = 0;

    while (load->next_history < load->history_count &&
           load->histories[load->next_history].job < job->id)
        load->next_history++;
    for (; load->next_history < load->history_count &&
           load->histories[load->next_history].job == job->id;
         load->next_history++)
        if (count < COMMAND_HISTORY_TYPES_MAX)
            rows[count++] = load->histories[load->next_history].row;
    if (count > 0)
        history_take(jobs, job->workload, rows, count);
}

static void restore_job(struct jobs *jobs, const struct loaded_job *loaded, struct load *load)
{
    struct job_submission submission = {.id = loaded->row.id,
                                        .uid = loaded->row.uid,
                                        .kind = loaded->row.kind,
                                        .priority = loaded->row.priority,
                                        .put_first = loaded->row.put_first,
                                        .needs = loaded->row.needs ? loaded->row.needs : "{}"};
    struct job *job;

    snprintf(submission.plan_digest, sizeof submission.plan_digest, "%s", loaded->row.digest);
    job = job_new(jobs, &submission);

    if (!job) {
        log_error("not enough memory for job %lld: it waits for the next start of traind",
                  (long long)loaded->row.id);
        return;
    }
    job_table_set_state(jobs->table, job, loaded->row.state);
    job->wait_reason = (uint8_t)loaded->row.wait_reason;
    job->attempt_number = loaded->row.attempt;
    job->retries = (uint16_t)loaded->row.retries;
    job->memory_failures = (uint8_t)loaded->row.memory_failures;
    job->avoids_sharing = loaded->row.avoids_sharing;
    if (loaded->row.state == JOB_QUEUED)
        job_wait_begin(jobs->table, job, loaded->row.queued);
    if (loaded->row.pinned[0])
        job_pin(jobs, job, loaded->row.pinned);
    restore_plan(job, loaded->plan);
    restore_history(jobs, job, load);
    job_graph_restore(jobs, job,
                      (loaded->row.state != JOB_QUEUED && loaded->row.state != JOB_PAUSED) ||
                          loaded->has_folder,
                      load->graph);
    if (loaded->row.state != JOB_QUEUED)
        return; /* its attempt follows */
    if (loaded->has_folder)
        restore_unstored_start(jobs, job, loaded);
    else if (loaded->row.wait_reason == WAIT_BACKOFF)
        job_queue_after(jobs, job,
                        retry_delay(loaded->row.backoff >= 0
                                        ? loaded->row.backoff
                                        : jobs->daemon->config.retry_backoff_seconds,
                                    loaded->row.retries > 0 ? loaded->row.retries - 1 : 0));
    else
        job_queue_after(jobs, job, 0);
}

static void on_loaded(void *data, int result, const struct error *error)
{
    struct load *load = data;
    struct jobs *jobs = load->jobs;

    if (jobs->stopping) {
        load_free(load);
        return;
    }
    if (result < 0) { /* the daemon must not run without its jobs */
        struct error failure = *error;

        error_prefix(&failure, "the jobs cannot be loaded");
        load_free(load);
        daemon_give_up(jobs->daemon, &failure);
        return;
    }
    for (size_t i = 0; i < load->count; i++)
        restore_job(jobs, &load->found[i], load);
    for (size_t i = 0; i < load->attempt_count; i++)
        restore_attempt(jobs, &load->attempts[i]);
    if (load->count || load->attempt_count)
        log_info("%zu jobs have not ended, %zu attempts are looked for", load->count,
                 load->attempt_count);
    /* a running job without an attempt: the attempt's row was lost in a crash of the machine */
    for (size_t i = 0; i < load->count; i++) {
        struct job *job = job_table_find(jobs->table, load->found[i].row.id);

        if (job && !job->attempt && job->state != JOB_QUEUED && job->state != JOB_PAUSED)
            job_fail(jobs, job, "its attempt is not in the database", NULL);
    }
    jobs->loaded = true;
    job_graph_connect(jobs, load->graph);
    schedules_restore(jobs, load->schedules, load->schedule_count);
    load->schedule_count = 0;
    jobs->ready(jobs->daemon);
    sharing_leftovers_remove(jobs->daemon, TAKE_POINTER(load->leftovers));
    load_free(load);
    jobs_plan(jobs);
    jobs_dispatch(jobs);
}

void jobs_recover(struct jobs *jobs)
{
    struct load *load = memory_zero(sizeof *load);

    load->jobs = jobs;
    store_read(jobs->daemon->store, load_work, on_loaded, load);
}
