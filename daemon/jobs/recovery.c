/* recovery.c: after a restart: every job that has not ended comes back into memory, and every
 * attempt without a stored end is looked for.
 *
 * An attempt may be further than its row: its shim is started while the transition to `starting` is
 * still on its way to disk. So for every queued job the folder of its next attempt is looked for
 * too: where there is one, the job did start. */
#include "daemon/jobs/recovery.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/attempts/mps_services.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/graph_load.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/move.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/start.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/store.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"
#include "proto/attempt_files.h"
#include "proto/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_AGAIN_MILLISECONDS = 1000 };

/* What was written beside an attempt's folder when it was launched. */
struct launched_as {
    char *device; /* that it was started on; owned; NULL: not known */
    bool shares_by_mps;
};

/* A job as its row has it. */
struct loaded_job {
    int64_t id;
    uid_t uid;
    enum job_kind kind;
    enum job_state state;
    enum wait_reason wait_reason;
    int priority, attempt, retries, memory_failures;
    bool avoids_mps;                /* an error ended an attempt that was its client */
    bool has_folder;                /* of the attempt that the row does not know */
    double launched;                /* when that was made */
    struct launched_as launched_as; /* that attempt */
    double submitted;
    double backoff; /* of its specification, while it pauses; -1: the general one */
    char digest[JOB_DIGEST_SIZE];
    char *needs; /* owned */
    char *plan;  /* owned; of the first job that has it */
    char pinned[DEVICE_NAME_MAX];
};

struct loaded_attempt {
    int64_t job, number, offset, n, resumed_from_step;
    double started;
    enum ending ending;
    char *message, *start; /* JSON of the `start` record */
    char *device;
    enum preemption preemption;
    char disagrees_with[DEVICE_NAME_MAX]; /* what its `error` record says */
    bool shares_by_mps;
    uid_t uid;
    enum job_kind kind;
    enum job_state job_state;
};

struct load {
    struct jobs *jobs;
    struct loaded_job *found;
    size_t count, capacity;
    struct loaded_attempt *attempts;
    size_t attempt_count;
    struct graph_load *graph;
    struct mps_leftovers *leftovers;
};

/* ---- on the storage thread ------------------------------------------------------------------- */

static int known_or_first(int index)
{
    return index < 0 ? 0 : index;
}

static int table_index(int (*from_string)(const char *), sqlite3_stmt *statement, int column)
{
    const char *name = (const char *)sqlite3_column_text(statement, column);

    return name ? known_or_first(from_string(name)) : 0;
}

static int load_jobs(struct store_connection *connection, struct load *load, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT id, uid, kind, state, wait_reason, priority, attempt, CASE WHEN attempt > 0 THEN "
        "(SELECT count(*) FROM attempt WHERE attempt.job = job.id AND attempt.ending IN ('exited', "
        "'signalled', 'out_of_memory', 'lost') AND coalesce(attempt.error_kind, '') NOT IN "
        "('device_memory', 'device_lost', 'mps')) ELSE 0 END, submitted, plan_digest, "
        "json_object('device', json_extract(" STORE_JSON(
            "spec") ", '$.device'), 'resources', "
                    "json_extract(" STORE_JSON(
                        "spec") ", '$.resources')), CASE WHEN attempt > 0 THEN (SELECT count(*) "
                                "FROM attempt WHERE "
                                "attempt.job = job.id AND attempt.ending = 'out_of_memory') ELSE 0 "
                                "END, pinned, CASE WHEN "
                                "wait_reason = 'backoff' THEN coalesce(json_extract(" STORE_JSON(
                                    "spec") ", '$.retry.backoff'), -1) ELSE -1 "
                                            "END, EXISTS (SELECT 1 FROM attempt WHERE attempt.job "
                                            "= job.id AND attempt.error_kind = 'mps') "
                                            "FROM job WHERE state NOT IN ('done', 'failed', "
                                            "'cancelled') ORDER BY id",
        error);
    int result;

    if (!statement)
        return error->code;
    while ((result = store_statement_next(statement, error)) > 0) {
        struct loaded_job *job;

        if (load->count == load->capacity) {
            size_t capacity = load->capacity ? load->capacity * 2 : 1024;

            job = realloc(load->found, capacity * sizeof *job);
            if (!job)
                return error_set(error, -ENOMEM, "not enough memory to load the jobs");
            load->found = job;
            load->capacity = capacity;
        }
        job = &load->found[load->count++];
        *job = (struct loaded_job){
            .id = sqlite3_column_int64(statement, 0),
            .uid = (uid_t)sqlite3_column_int64(statement, 1),
            .kind = (enum job_kind)table_index(job_kind_from_string, statement, 2),
            .state = (enum job_state)table_index(job_state_from_string, statement, 3),
            .wait_reason = (enum wait_reason)table_index(wait_reason_from_string, statement, 4),
            .priority = sqlite3_column_int(statement, 5),
            .attempt = sqlite3_column_int(statement, 6),
            .retries = sqlite3_column_int(statement, 7),
            .memory_failures = sqlite3_column_int(statement, 11),
            .submitted = sqlite3_column_double(statement, 8),
            .needs = strdup((const char *)sqlite3_column_text(statement, 10)),
            .backoff = sqlite3_column_double(statement, 13),
            .avoids_mps = sqlite3_column_int(statement, 14) != 0,
        };
        if (sqlite3_column_type(statement, 12) != SQLITE_NULL)
            snprintf(job->pinned, sizeof job->pinned, "%s", sqlite3_column_text(statement, 12));
        if (sqlite3_column_type(statement, 9) != SQLITE_NULL)
            snprintf(job->digest, sizeof job->digest, "%s", sqlite3_column_text(statement, 9));
    }
    return result;
}

/* The plans of the jobs that have one: each once. */
static int load_plans(struct store_connection *connection, struct load *load, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT min(job.id), plan.plan FROM job JOIN plan ON plan.uid = job.uid AND plan.digest = "
        "job.plan_digest WHERE job.state NOT IN ('done', 'failed', 'cancelled') GROUP BY plan.uid, "
        "plan.digest ORDER BY min(job.id)",
        error);
    size_t at = 0;
    int result;

    if (!statement)
        return error->code;
    while ((result = store_statement_next(statement, error)) > 0) {
        int64_t job = sqlite3_column_int64(statement, 0);

        while (at < load->count && load->found[at].id < job)
            at++;
        if (at < load->count && load->found[at].id == job)
            load->found[at].plan = strdup((const char *)sqlite3_column_text(statement, 1));
    }
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
    return (struct launched_as){.device = device ? strdup(device) : NULL,
                                .shares_by_mps = json_get_bool(attempt, "mps", false)};
}

static int load_attempts(struct store_connection *connection, struct load *load,
                         struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT attempt.job, attempt.number, attempt.started, attempt.ending, attempt.message, "
        "attempt.resumed_from_step, spool_offset.offset, spool_offset.n, job.uid, job.kind, "
        "job.state, (SELECT detail FROM event WHERE event.job = attempt.job AND event.attempt = "
        "attempt.number AND event.kind = 'start' ORDER BY id DESC LIMIT 1), attempt.device, "
        "attempt.preemption, (SELECT " STORE_JSON(
            "detail") " ->> 'came_from' FROM event WHERE event.job = "
                      "attempt.job AND event.attempt = attempt.number AND event.kind = 'error' "
                      "ORDER BY id DESC "
                      "LIMIT 1) FROM attempt JOIN job "
                      "ON job.id = attempt.job LEFT JOIN spool_offset ON spool_offset.job = "
                      "attempt.job AND "
                      "spool_offset.attempt = attempt.number WHERE attempt.ended IS NULL",
        error);
    int result;

    if (!statement)
        return error->code;
    while ((result = store_statement_next(statement, error)) > 0) {
        struct loaded_attempt *grown =
            realloc(load->attempts, (load->attempt_count + 1) * sizeof *grown);
        const char *message = (const char *)sqlite3_column_text(statement, 4);
        const char *start = (const char *)sqlite3_column_text(statement, 11);
        const char *came_from = (const char *)sqlite3_column_text(statement, 14);

        if (!grown)
            return error_set(error, -ENOMEM, "not enough memory to load the attempts");
        load->attempts = grown;
        grown[load->attempt_count++] = (struct loaded_attempt){
            .job = sqlite3_column_int64(statement, 0),
            .number = sqlite3_column_int64(statement, 1),
            .started = sqlite3_column_double(statement, 2),
            .ending = (enum ending)table_index(ending_from_string, statement, 3),
            .message = message ? strdup(message) : NULL,
            .resumed_from_step = sqlite3_column_type(statement, 5) == SQLITE_NULL
                                     ? -1
                                     : sqlite3_column_int64(statement, 5),
            .offset = sqlite3_column_int64(statement, 6),
            .n = sqlite3_column_int64(statement, 7),
            .uid = (uid_t)sqlite3_column_int64(statement, 8),
            .kind = (enum job_kind)table_index(job_kind_from_string, statement, 9),
            .job_state = (enum job_state)table_index(job_state_from_string, statement, 10),
            .start = start ? strdup(start) : NULL,
            .device = strdup((const char *)sqlite3_column_text(statement, 12)),
            .preemption = (enum preemption)table_index(preemption_from_string, statement, 13),
        };
        if (came_from)
            snprintf(grown[load->attempt_count - 1].disagrees_with, DEVICE_NAME_MAX, "%s",
                     came_from);
    }
    return result;
}

/* When the folder was made, which no user can change; where the file system does not know, when
 * the job was submitted. */
static double folder_birth(int folder, const struct loaded_job *job)
{
    struct statx status;

    if (statx(folder, "", AT_EMPTY_PATH, STATX_BTIME, &status) < 0 ||
        !(status.stx_mask & STATX_BTIME))
        return job->submitted;
    return (double)status.stx_btime.tv_sec + 1e-9 * status.stx_btime.tv_nsec;
}

/* Who has ended is no client any more, and few of the others are native. */
static void look_for_clients(struct load *load)
{
    for (size_t i = 0; i < load->attempt_count; i++) {
        struct loaded_attempt *attempt = &load->attempts[i];
        struct launched_as launched = {0};

        if (attempt->kind == JOB_NATIVE)
            launched = read_launch(load, attempt->job, attempt->number);
        attempt->shares_by_mps = launched.shares_by_mps;
        free(launched.device);
    }
}

static void look_for_folders(struct load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        struct loaded_job *job = &load->found[i];
        AUTO_CLOSE int folder = -1;

        if (job->state != JOB_QUEUED)
            continue;
        folder = attempt_folder_open(load->jobs->daemon->state_directory, job->id, job->attempt + 1,
                                     NULL);
        if (folder < 0)
            continue;
        job->has_folder = true;
        job->launched = folder_birth(folder, job);
        job->launched_as = read_launch(load, job->id, job->attempt + 1);
    }
}

static int load_work(struct store_connection *connection, void *data, struct error *error)
{
    struct load *load = data;
    int result = load_jobs(connection, load, error);

    if (result == 0)
        result = load_plans(connection, load, error);
    if (result == 0)
        result = load_attempts(connection, load, error);
    if (result == 0) {
        look_for_folders(load);
        look_for_clients(load);
    }
    if (result == 0) {
        attempts_clear_groups(load->jobs->daemon->state_directory);
        mps_leftovers_find(load->jobs->daemon->state_directory, &load->leftovers);
    }
    if (result == 0 && !(load->graph = job_graph_read(connection, error)))
        return error->code;
    return result;
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void load_free(struct load *load)
{
    for (size_t i = 0; i < load->attempt_count; i++) {
        free(load->attempts[i].message);
        free(load->attempts[i].start);
        free(load->attempts[i].device);
    }
    for (size_t i = 0; i < load->count; i++) {
        free(load->found[i].needs);
        free(load->found[i].plan);
        free(load->found[i].launched_as.device);
    }
    graph_load_free(load->graph);
    mps_leftovers_free(load->leftovers);
    free(load->attempts);
    free(load->found);
    free(load);
}

/* The details are needed when the attempt ends, and the time limit before. */
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

static void on_attach_details(void *data, int result, const struct error *error)
{
    struct attach_read *attach = data;
    struct jobs *jobs = attach->read.jobs;
    struct job *job = jobs->stopping ? NULL : job_table_find(jobs->table, attach->read.id);

    if (result < 0 && job)
        log_warning("job %lld: its specification cannot be read: %s", (long long)job->id,
                    error->text);
    if (job && job->attempt == attach->attempt) {
        if (result == 0) {
            attach->attempt->time_limit = attach->read.details->time_limit;
            job->details = TAKE_POINTER(attach->read.details);
        }
        if (result < 0 && result != -EINVAL) /* -EINVAL: it is damaged, and will be next time */
            attempt_timer_start(attach->attempt, &attach->attempt->seek, on_read_again,
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
    struct attach_read *attach = calloc(1, sizeof *attach);

    if (!attach) {
        attempt_attach(attempt);
        return;
    }
    attach->read.jobs = jobs;
    attach->read.id = attempt->job_id;
    attach->attempt = attempt;
    store_read(jobs->daemon->store, details_read_work, on_attach_details, attach);
}

static void attempt_look_for(struct jobs *jobs, struct job *job, struct attempt *attempt,
                             const char *device)
{
    attempt->claim.device_count =
        devices_parse(jobs->daemon->devices, device ? device : DEVICE_HOST, attempt->claim.devices,
                      JOB_DEVICES_MAX);
    jobs_book(jobs, attempt,
              attempt->claim.device_count ? job_memory(job, attempt->claim.devices[0]) : 0);
    attempt_read_details(jobs, attempt);
}

static void attempt_restore_progress(struct attempt *attempt, const char *start)
{
    JSON_AUTO struct json_object *record = NULL;

    if (!start || json_parse(start, strlen(start), &record, NULL) < 0)
        return;
    attempt->progress.steps = json_get_int(record, "steps", -1);
    attempt->progress.epochs = json_get_int(record, "epochs", -1);
    attempt->claim.shares_by_mps &= json_get_bool(record, "mps", true);
}

static void restore_attempt(struct jobs *jobs, struct loaded_attempt *loaded)
{
    struct job *job = job_table_find(jobs->table, loaded->job);
    struct attempt *attempt;

    if (!job) { /* ended for its user (cancelled), but not its processes */
        struct job_submission submission = {
            .id = loaded->job, .uid = loaded->uid, .kind = loaded->kind, .needs = "{}"};

        job = job_new(jobs, &submission);
        if (!job)
            return;
        job_mark_ended(jobs, job);
        job->state = (uint8_t)loaded->job_state;
        job->attempt_number = (int32_t)loaded->number;
    }
    attempt = job_bind_attempt(jobs, job, loaded->number, &job_running_events);
    attempt->launched = attempt->started = loaded->started;
    attempt->message = TAKE_POINTER(loaded->message);
    attempt->error_recorded = attempt->message != NULL;
    attempt->spool.position.offset = loaded->offset;
    attempt->spool.position.n = loaded->n;
    attempt->resumed_from_step = loaded->resumed_from_step;
    attempt->preemption = loaded->preemption;
    memcpy(attempt->disagrees_with, loaded->disagrees_with, sizeof attempt->disagrees_with);
    attempt->intent = job->ended ? ENDING_CANCELLED : loaded->ending;
    attempt->claim.shares_by_mps = loaded->shares_by_mps;
    attempt_restore_progress(attempt, loaded->start);
    attempt_look_for(jobs, job, attempt, loaded->device);
}

/* Its shim was started, and the daemon killed before that was on disk. */
static void restore_unstored_start(struct jobs *jobs, struct job *job,
                                   const struct loaded_job *loaded)
{
    const char *device = loaded->launched_as.device;
    struct transition *transition;
    struct attempt *attempt;

    job->attempt_number++;
    attempt = job_bind_attempt(jobs, job, job->attempt_number, &job_running_events);
    attempt->launched = loaded->launched;
    attempt->claim.shares_by_mps = loaded->launched_as.shares_by_mps;
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_STARTING, WAIT_NONE,
                         "found started after a restart of traind");
    snprintf(transition->device, sizeof transition->device, "%s", device ? device : DEVICE_HOST);
    transition->attempt_change = ATTEMPT_BEGIN;
    transition->attempt_started = transition->time;
    transition_store(transition);
    attempt_look_for(jobs, job, attempt, device);
}

static void restore_plan(struct job *job, const char *text)
{
    JSON_AUTO struct json_object *plan = NULL;

    if (text && json_parse(text, strlen(text), &plan, NULL) == 0)
        workload_set_plan(job->workload, plan);
}

static void restore_job(struct jobs *jobs, const struct loaded_job *loaded,
                        struct graph_load *graph)
{
    struct job_submission submission = {.id = loaded->id,
                                        .uid = loaded->uid,
                                        .kind = loaded->kind,
                                        .priority = loaded->priority,
                                        .needs = loaded->needs ? loaded->needs : "{}"};
    struct job *job;

    snprintf(submission.plan_digest, sizeof submission.plan_digest, "%s", loaded->digest);
    job = job_new(jobs, &submission);

    if (!job) {
        log_error("not enough memory for job %lld: it waits for the next start of traind",
                  (long long)loaded->id);
        return;
    }
    job->state = (uint8_t)loaded->state;
    job->wait_reason = (uint8_t)loaded->wait_reason;
    job->attempt_number = loaded->attempt;
    job->retries = (uint16_t)loaded->retries;
    job->memory_failures = (uint8_t)loaded->memory_failures;
    job->avoids_mps = loaded->avoids_mps;
    job->waits_since = loaded->state == JOB_QUEUED ? loaded->submitted : 0;
    if (loaded->pinned[0])
        job_pin(jobs, job, loaded->pinned);
    restore_plan(job, loaded->plan);
    job_graph_restore(
        jobs, job,
        (loaded->state != JOB_QUEUED && loaded->state != JOB_PAUSED) || loaded->has_folder, graph);
    if (loaded->state != JOB_QUEUED)
        return; /* its attempt follows */
    if (loaded->has_folder)
        restore_unstored_start(jobs, job, loaded);
    else if (loaded->wait_reason == WAIT_BACKOFF)
        job_queue_after(jobs, job,
                        retry_delay(loaded->backoff >= 0
                                        ? loaded->backoff
                                        : jobs->daemon->config.retry_backoff_seconds,
                                    loaded->retries > 0 ? loaded->retries - 1 : 0));
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
    if (result < 0) { /* without its jobs a daemon must not act */
        struct error failure = *error;

        error_prefix(&failure, "the jobs cannot be loaded");
        load_free(load);
        daemon_give_up(jobs->daemon, &failure);
        return;
    }
    for (size_t i = 0; i < load->count; i++)
        restore_job(jobs, &load->found[i], load->graph);
    for (size_t i = 0; i < load->attempt_count; i++)
        restore_attempt(jobs, &load->attempts[i]);
    if (load->count || load->attempt_count)
        log_info("%zu jobs have not ended, %zu attempts are looked for", load->count,
                 load->attempt_count);
    /* a running job without an attempt: its row was lost with the disk's last moments */
    for (size_t i = 0; i < load->count; i++) {
        struct job *job = job_table_find(jobs->table, load->found[i].id);

        if (job && !job->attempt && job->state != JOB_QUEUED && job->state != JOB_PAUSED)
            job_fail(jobs, job, "its attempt is not in the database");
    }
    jobs->loaded = true;
    job_graph_connect(jobs, load->graph);
    jobs->ready(jobs->daemon);
    mps_leftovers_remove(jobs->daemon, TAKE_POINTER(load->leftovers));
    load_free(load);
    jobs_plan(jobs);
    jobs_dispatch(jobs);
}

void jobs_recover(struct jobs *jobs)
{
    struct load *load = calloc(1, sizeof *load);

    if (!load) {
        struct error failure;

        error_set(&failure, -ENOMEM, "not enough memory to load the jobs");
        daemon_give_up(jobs->daemon, &failure);
        return;
    }
    load->jobs = jobs;
    store_read(jobs->daemon->store, load_work, on_loaded, load);
}
