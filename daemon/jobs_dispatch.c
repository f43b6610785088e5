/* jobs_dispatch.c: places the head of the queue and starts it.
 *
 * Runs when something has happened that may let the head start: a submission, an end, a plan, a
 * timer. It looks at the head alone, so an event costs O(log n) whatever the length of the queue.
 * The transition to `starting` is stored while the shim is being started already: a daemon that is
 * killed in between finds the attempt by its folder (jobs_recovery.c). */
#include "base/log.h"
#include "daemon/jobs_store.h"
#include "daemon/spool_store.h"
#include "scheduler/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_SAMPLE_MILLISECONDS = 100, MEMORY_POLL_MILLISECONDS = 1000 };

/* ---- details --------------------------------------------------------------------------------- */

static struct job_details *details_parse(const char *text, size_t length, struct error *error)
{
    struct job_details *details = calloc(1, sizeof *details);
    struct json_object *device, *allow, *retry;

    if (!details || json_parse(text, length, &details->spec, error) < 0) {
        free(details);
        return NULL;
    }
    device = json_get(details->spec, "device");
    allow = device ? json_get(device, "allow") : NULL;
    if (allow && json_object_is_type(allow, json_type_array)) {
        details->allowed = calloc(json_object_array_length(allow) + 1, sizeof *details->allowed);
        for (size_t i = 0; details->allowed && i < json_object_array_length(allow); i++)
            details->allowed[details->allowed_count++] =
                json_object_get_string(json_object_array_get_idx(allow, i));
    }
    details->preferred = device ? json_get_string(device, "prefer", NULL) : NULL;
    if (details->preferred && strcmp(details->preferred, "auto") == 0)
        details->preferred = NULL;
    details->time_limit = json_get_double(details->spec, "time_limit", 0);
    retry = json_get(details->spec, "retry");
    details->retry_limit = retry ? (int)json_get_int(retry, "limit", -1) : -1;
    details->backoff_seconds = retry ? json_get_double(retry, "backoff", -1) : -1;
    return details;
}

int details_read_work(struct store_connection *connection, void *data, struct error *error)
{
    struct details_read *read = data;
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT job.spec, job.plan_digest, json_extract(plan.plan, '$.memory_bytes'), "
        "json_extract(plan.plan, '$.choices') FROM job LEFT JOIN plan ON plan.uid = job.uid AND "
        "plan.digest = job.plan_digest WHERE job.id = ?",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, read->id);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : error_set(error, -ENOENT, "the job's row is missing");
    read->details = details_parse((const char *)sqlite3_column_text(statement, 0),
                                  (size_t)sqlite3_column_bytes(statement, 0), error);
    if (sqlite3_column_type(statement, 1) != SQLITE_NULL)
        snprintf(read->digest, sizeof read->digest, "%s", sqlite3_column_text(statement, 1));
    if (sqlite3_column_type(statement, 2) != SQLITE_NULL) {
        read->planned = true;
        read->memory = (uint64_t)sqlite3_column_int64(statement, 2);
    }
    if (sqlite3_column_type(statement, 3) != SQLITE_NULL)
        snprintf(read->choices, sizeof read->choices, "%s", sqlite3_column_text(statement, 3));
    sqlite3_reset(statement);
    return read->details ? 0 : error->code;
}

static void on_details_read(void *data, int result, const struct error *error)
{
    struct details_read *read = data;
    struct jobs *jobs = read->jobs;
    struct job *job = jobs->stopping ? NULL : job_table_find(&jobs->table, read->id);

    if (job && result == 0) {
        struct json_object *resources = json_get(read->details->spec, "resources");

        job->loading = false;
        job_details_free(job->details);
        job->details = TAKE_POINTER(read->details);
        snprintf(job->details->choices, sizeof job->details->choices, "%s",
                 read->choices[0] ? read->choices : recent_plan_choices(jobs, job, read->digest));
        if (job->kind == JOB_COMMAND && resources)
            job->memory = (uint64_t)json_get_int(resources, "memory", 0);
        else if (read->planned)
            job->memory = read->memory;
        jobs_dispatch(jobs);
    } else if (job && job->state == JOB_QUEUED) {
        char reason[JOB_REASON_MAX];

        job->loading = false;
        snprintf(reason, sizeof reason, "its specification cannot be read: %.400s", error->text);
        job_fail(jobs, job, reason);
        jobs_dispatch(jobs);
    }
    job_details_free(read->details);
    free(read);
}

static void details_load(struct jobs *jobs, struct job *job)
{
    struct details_read *read;

    if (job->details || job->loading)
        return;
    read = calloc(1, sizeof *read);
    if (!read)
        return;
    read->jobs = jobs;
    read->id = job->id;
    job->loading = true;
    store_read(jobs->daemon->store, details_read_work, on_details_read, read);
}

/* ---- ledger ---------------------------------------------------------------------------------- */

void jobs_book(struct jobs *jobs, struct attempt *attempt, uint64_t memory)
{
    if (jobs->running_count == jobs->running_capacity) {
        size_t capacity = jobs->running_capacity ? jobs->running_capacity * 2 : 16;
        struct attempt **grown = realloc(jobs->running, capacity * sizeof(struct attempt *));

        if (!grown) {
            log_error("not enough memory to keep the ledger; ending");
            abort();
        }
        jobs->running = grown;
        jobs->running_capacity = capacity;
    }
    jobs->running[jobs->running_count++] = attempt;
    attempt->memory_booked = memory;
    jobs->memory_booked += memory;
}

void jobs_unbook(struct jobs *jobs, struct attempt *attempt)
{
    for (size_t i = 0; i < jobs->running_count; i++) {
        if (jobs->running[i] == attempt) {
            jobs->running[i] = jobs->running[--jobs->running_count];
            jobs->memory_booked -= attempt->memory_booked;
            return;
        }
    }
}

/* Resident bytes of one process, 0 when it is gone. */
static uint64_t resident_bytes(pid_t pid)
{
    char path[32], text[128];
    unsigned long long total, resident;
    ssize_t length;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    length = read(file, text, sizeof text - 1);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    if (sscanf(text, "%llu %llu", &total, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What others hold: everything in use less what our own jobs hold. Sampled at most every 100 ms. */
static uint64_t memory_outside(struct jobs *jobs)
{
    uint64_t now = uv_now(jobs->daemon->loop), used, ours = 0;

    if (jobs->memory_measured_at && now - jobs->memory_measured_at < MEMORY_SAMPLE_MILLISECONDS)
        return jobs->memory_outside;
    used = cpu_probe_memory_used("", &jobs->daemon->cpu);
    for (size_t i = 0; i < jobs->running_count; i++)
        if (jobs->running[i]->pid > 0)
            ours += resident_bytes(jobs->running[i]->pid);
    jobs->memory_measured_at = now ? now : 1;
    jobs->memory_outside = used > ours ? used - ours : 0;
    return jobs->memory_outside;
}

static struct placement_device cpu_snapshot(struct jobs *jobs)
{
    const struct config *config = &jobs->daemon->config;

    return (struct placement_device){
        .name = "cpu",
        .kind = "cpu",
        .memory_capacity = jobs->daemon->cpu.memory_total,
        .memory_booked = jobs->memory_booked,
        .memory_outside = memory_outside(jobs),
        .high_watermark_ratio = config->high_watermark_ratio,
        .slots = (int)config->cpu_slots,
        .slots_used = (int)jobs->running_count,
    };
}

/* ---- starting -------------------------------------------------------------------------------- */

struct attempt *job_bind_attempt(struct jobs *jobs, struct job *job, int64_t number,
                                 const struct attempt_events *events)
{
    struct attempt *attempt = attempt_new(jobs->daemon, events, job, number);

    if (!attempt) {
        log_error("not enough memory to start job %lld; ending", (long long)job->id);
        abort();
    }
    job->attempt = attempt;
    return attempt;
}

int jobs_threads(const struct jobs *jobs, const struct job_details *details)
{
    struct json_object *device = json_get(details->spec, "device");
    int threads = device ? (int)json_get_int(device, "threads", 0) : 0;
    int share = jobs->daemon->cpu.threads / (int)jobs->daemon->config.cpu_slots;

    if (share < 1)
        share = 1;
    return threads > 0 ? threads : share;
}

/* The checkpoint that a retry goes on from, fetched before the start. */
struct resume_read {
    struct jobs *jobs;
    int64_t id;
    uid_t uid;
    char *path;
};

static int resume_read_work(struct store_connection *connection, void *data, struct error *error)
{
    struct resume_read *read = data;
    int64_t step = checkpoint_restore(connection, read->jobs->daemon->state_directory, read->id,
                                      read->uid, read->path, error);

    return step < 0 ? (int)step : 0;
}

static void attempt_launch_now(struct jobs *jobs, struct job *job, char *resume)
{
    attempt_launch(job->attempt, job->details->spec, resume, "cpu",
                   jobs_threads(jobs, job->details), job->details->choices);
    /* a training run is long: its specification need not stay in memory */
    json_object_put(job->details->spec);
    job->details->spec = NULL;
    free(job->details->allowed);
    job->details->allowed = NULL;
    job->details->allowed_count = 0;
    job->details->preferred = NULL;
}

static void on_resume_read(void *data, int result, const struct error *error)
{
    struct resume_read *read = data;
    struct job *job = read->jobs->stopping ? NULL : job_table_find(&read->jobs->table, read->id);

    if (job && job->attempt) {
        if (result == 0 || result == -ENOENT)
            attempt_launch_now(read->jobs, job, result == 0 ? TAKE_POINTER(read->path) : NULL);
        else /* such as a full disk: what the job has learnt is worth another try */
            attempt_refuse_launch(job->attempt, error);
    }
    free(read->path);
    free(read);
}

static void job_start(struct jobs *jobs, struct job *job, const struct placement *placement)
{
    struct transition *transition;
    struct resume_read *read = NULL;
    struct attempt *attempt;

    job_queue_remove(job);
    job->attempt_number++;
    attempt = job_bind_attempt(jobs, job, job->attempt_number, &running_events);
    attempt->time_limit = job->details->time_limit;
    jobs_book(jobs, attempt, job->memory);
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_STARTING, WAIT_NONE, placement->reason);
    snprintf(transition->device, sizeof transition->device, "cpu");
    transition->attempt_change = ATTEMPT_BEGIN;
    transition->attempt_started = transition->time;
    transition_store(transition);
    if (job->kind == JOB_NATIVE && job->attempt_number > 1)
        read = calloc(1, sizeof *read);
    if (read && asprintf(&read->path, "%s/jobs/%lld.resume-%d", jobs->daemon->state_directory,
                         (long long)job->id, (int)job->attempt_number) >= 0) {
        read->jobs = jobs;
        read->id = job->id;
        read->uid = job->uid;
        store_read(jobs->daemon->store, resume_read_work, on_resume_read, read);
        return;
    }
    free(read);
    attempt_launch_now(jobs, job, NULL);
}

static void on_started(struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct job *job = attempt->job;
    struct transition *transition;

    if (!job || job->state != JOB_STARTING) /* cancelled meanwhile, or found again */
        return;
    job->launch_failures = 0;
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_RUNNING, WAIT_NONE, "");
    transition->keeps_reason = true;
    transition->started = transition->attempt_started = attempt->started;
    transition->attempt_change = ATTEMPT_RUN;
    transition->pid = attempt->pid;
    transition_store(transition);
}

const struct attempt_events running_events = {
    .started = on_started, .gone = job_attempt_gone, .ended = job_attempt_ended};

/* ---- the queue ------------------------------------------------------------------------------- */

static void on_memory_timer(uv_timer_t *timer)
{
    jobs_dispatch(timer->data);
}

static enum wait_reason wait_reason_of(enum placement_verdict verdict)
{
    return verdict == PLACEMENT_WAIT_MEMORY     ? WAIT_MEMORY
           : verdict == PLACEMENT_WAIT_DRAINING ? WAIT_DRAINING
                                                : WAIT_DEVICE_BUSY;
}

/* One decision about the head; whether the next head may be looked at. */
static bool dispatch_head(struct jobs *jobs, struct job *job)
{
    struct placement_device device = cpu_snapshot(jobs);
    struct placement_need need = {.memory = job->memory,
                                  .allowed = job->details->allowed,
                                  .allowed_count = job->details->allowed_count,
                                  .preferred = job->details->preferred};
    struct placement placement = placement_decide(&need, &device, 1);

    switch (placement.verdict) {
    case PLACEMENT_START:
        job_start(jobs, job, &placement);
        return true;
    case PLACEMENT_IMPOSSIBLE:
        job_fail(jobs, job, placement.reason);
        return true;
    case PLACEMENT_WAIT_MEMORY: /* others' use changes without an event */
        uv_timer_start(&jobs->memory_timer, on_memory_timer, MEMORY_POLL_MILLISECONDS, 0);
        break;
    case PLACEMENT_WAIT_SLOT:
    case PLACEMENT_WAIT_DRAINING:
        break;
    }
    job_set_waiting(jobs, job, wait_reason_of(placement.verdict), placement.reason);
    return false;
}

void jobs_dispatch(struct jobs *jobs)
{
    struct job *job;

    if (jobs->stopping || !jobs->loaded || jobs->dispatching)
        return;
    jobs->dispatching = true;
    while ((job = job_queue_first(&jobs->ready)) && job->details && dispatch_head(jobs, job)) {
    }
    jobs->dispatching = false;
    /* The head and its children in the heap hold the next two: read before a slot gets free. */
    for (size_t i = 0; i < 3 && i < jobs->ready.count; i++)
        details_load(jobs, jobs->ready.jobs[i]);
}
