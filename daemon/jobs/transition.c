/* transition.c: see transition.h. */
#include "daemon/jobs/transition.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/attempts/supervisor.h"
#include "daemon/jobs/history.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/command_history_rows.h"
#include "daemon/store/spool_store.h"
#include "daemon/store/store.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STORE_RETRY_MILLISECONDS = 1000 };

struct transitions {
    struct transition *first_failed, *last_failed; /* to be stored again, in order */
    uv_timer_t timer;
    transition_stored stored;
    struct log_throttle throttle;
};

struct transition *transition_new(struct jobs *jobs, const struct job *job)
{
    struct transition *transition = calloc(1, sizeof *transition);

    if (!transition) { /* neither to be told nor to be stored: better to end and recover */
        log_error("not enough memory for a change of job %lld; ending", (long long)job->id);
        abort();
    }
    transition->jobs = jobs;
    transition->job = job->id;
    transition->uid = job->uid;
    transition->attempt = transition->job_attempt = job->attempt_number;
    transition->time = clock_now();
    transition->started = transition->ended = NAN;
    transition->exit_status = transition->attempt_exit_status = -1;
    transition->attempt_started = transition->attempt_ended = NAN;
    transition->cpu_seconds = NAN;
    transition->energy_joules = transition->device_energy_joules = NAN;
    transition->peak_resident_bytes = -1;
    return transition;
}

void transition_set_state(struct transition *transition, struct job *job, enum job_state to,
                          enum wait_reason wait_reason, const char *reason)
{
    enum job_state from = (enum job_state)job->state;

    if (!job_transition_allowed(from, to)) {
        log_error("job %lld: a change from %s to %s is a mistake of traind", (long long)job->id,
                  job_state_to_string(from), job_state_to_string(to));
        abort();
    }
    transition->changes_state = true;
    transition->from = from;
    transition->to = to;
    transition->wait_reason = wait_reason;
    snprintf(transition->reason, sizeof transition->reason, "%s", reason);
    if (job_state_is_final(to)) {
        transition->ended = transition->time;
        transition->notifies = job->notifies;
    }
    job->state = (uint8_t)to;
    job->wait_reason = (uint8_t)wait_reason;
}

static void transition_free(struct transition *transition)
{
    free(transition->message);
    free(transition->plan);
    free(transition->decision);
    free(transition->run);
    free(transition);
}

/* ---- on the storage thread ------------------------------------------------------------------- */

static void bind_known(sqlite3_stmt *statement, int index, int64_t value, int64_t unknown)
{
    if (value == unknown)
        store_bind_null(statement, index);
    else
        store_bind_int(statement, index, value);
}

static int job_update(struct store_connection *connection, const struct transition *transition,
                      struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "UPDATE job SET state = ?1, reason = coalesce(?2, reason), wait_reason = ?3, device = "
        "coalesce(?4, device), "
        "attempt = ?5, started = coalesce(started, ?6), "
        /* a moment that the shim saw, after one that the daemon saw */
        "ended = max(?7, coalesce(started, ?6, ?7)), exit_status = coalesce(?8, "
        "exit_status), decision = coalesce(?11, decision) WHERE id = ?9 AND state = ?10",
        error);
    int result;

    if (!statement)
        return error->code;
    store_bind_text(statement, 1, job_state_to_string(transition->to));
    store_bind_text(statement, 2, transition->keeps_reason ? NULL : transition->reason);
    store_bind_text(statement, 3, wait_reason_to_string(transition->wait_reason));
    store_bind_text(statement, 4, transition->device[0] ? transition->device : NULL);
    store_bind_int(statement, 5, transition->job_attempt);
    store_bind_double(statement, 6, transition->started);
    store_bind_double(statement, 7, transition->ended);
    bind_known(statement, 8, transition->exit_status, -1);
    store_bind_int(statement, 9, transition->job);
    store_bind_text(statement, 10, job_state_to_string(transition->from));
    store_bind_text(statement, 11, transition->decision);
    result = store_statement_run(statement, error);
    if (result < 0)
        return result;
    /* an earlier change of this job has failed and will come again: this one must follow it */
    if (sqlite3_changes(store_database(connection)) == 0)
        return error_set(error, -EAGAIN, "job %lld is not %s", (long long)transition->job,
                         job_state_to_string(transition->from));
    statement = store_statement(connection,
                                "INSERT INTO transition (job, time, from_state, to_state, reason) "
                                "VALUES (?, ?, ?, ?, ?)",
                                error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, transition->job);
    store_bind_double(statement, 2, transition->time);
    store_bind_text(statement, 3, job_state_to_string(transition->from));
    store_bind_text(statement, 4, job_state_to_string(transition->to));
    store_bind_text(statement, 5, transition->keeps_reason ? NULL : transition->reason);
    return store_statement_run(statement, error);
}

static int wait_update(struct store_connection *connection, const struct transition *transition,
                       struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "UPDATE job SET reason = ?, wait_reason = ?, decision = coalesce(?, decision) WHERE id = ? "
        "AND state = 'queued'",
        error);

    if (!statement)
        return error->code;
    store_bind_text(statement, 1, transition->reason);
    store_bind_text(statement, 2, wait_reason_to_string(transition->wait_reason));
    store_bind_text(statement, 3, transition->decision);
    store_bind_int(statement, 4, transition->job);
    return store_statement_run(statement, error);
}

static int attempt_update(struct store_connection *connection, const struct transition *transition,
                          struct error *error)
{
    static const char *const commands[] = {
        [ATTEMPT_BEGIN] = "INSERT OR REPLACE INTO attempt (job, number, device, started, decision) "
                          "VALUES (?1, ?2, ?3, ?4, ?5)",
        [ATTEMPT_RUN] = "UPDATE attempt SET started = ?4, pid = ?5 WHERE job = ?1 AND number = ?2",
        /* beside the decision that started it */
        [ATTEMPT_INTEND] = "UPDATE attempt SET ending = ?6, preemption = coalesce(?7, preemption), "
                           "decision = iif(?8 IS NULL, decision, json_set(coalesce(" STORE_JSON(
                               "decision") ", '{}'), "
                                           "'$.leaves', json(?8))) WHERE job = ?1 AND number = ?2",
        [ATTEMPT_END] = "UPDATE attempt SET started = coalesce(?4, started), ending = ?6, ended = "
                        "?7, exit_status = ?8, signal = ?9, message = coalesce(?10, message), "
                        "peak_resident_bytes = ?11, cpu_seconds = ?12, energy_joules = ?13, "
                        "device_energy_joules = ?14, error_kind = coalesce(?15, error_kind) "
                        "WHERE job = ?1 AND number = ?2",
        [ATTEMPT_DELETE] = "DELETE FROM attempt WHERE job = ?1 AND number = ?2",
    };
    sqlite3_stmt *statement =
        store_statement(connection, commands[transition->attempt_change], error);
    int parameters;

    if (!statement)
        return error->code;
    parameters = sqlite3_bind_parameter_count(statement);
    store_bind_int(statement, 1, transition->job);
    store_bind_int(statement, 2, transition->attempt);
    if (parameters >= 3)
        store_bind_text(statement, 3, transition->device);
    if (parameters >= 4)
        store_bind_double(statement, 4, transition->attempt_started);
    if (transition->attempt_change == ATTEMPT_BEGIN)
        store_bind_text(statement, 5, transition->decision);
    else if (parameters >= 5)
        bind_known(statement, 5, transition->pid, 0);
    if (parameters >= 6)
        store_bind_text(statement, 6, ending_to_string(transition->ending));
    if (transition->attempt_change == ATTEMPT_INTEND) {
        store_bind_text(statement, 7, preemption_to_string(transition->preemption));
        store_bind_text(statement, 8, transition->decision);
    }
    if (transition->attempt_change == ATTEMPT_END) {
        store_bind_double(statement, 7, transition->attempt_ended);
        bind_known(statement, 8, transition->attempt_exit_status, -1);
        bind_known(statement, 9, transition->signal, 0);
        store_bind_text(statement, 10, transition->message);
        bind_known(statement, 11, transition->peak_resident_bytes, -1);
        store_bind_double(statement, 12, transition->cpu_seconds);
        store_bind_double(statement, 13, transition->energy_joules);
        store_bind_double(statement, 14, transition->device_energy_joules);
        store_bind_text(statement, 15, transition->error_kind[0] ? transition->error_kind : NULL);
    }
    return store_statement_run(statement, error);
}

static int pin_update(struct store_connection *connection, const struct transition *transition,
                      struct error *error)
{
    sqlite3_stmt *statement =
        store_statement(connection, "UPDATE job SET pinned = ? WHERE id = ?", error);

    if (!statement)
        return error->code;
    store_bind_text(statement, 1, transition->pinned[0] ? transition->pinned : NULL);
    store_bind_int(statement, 2, transition->job);
    return store_statement_run(statement, error);
}

static int plan_insert(struct store_connection *connection, const struct transition *transition,
                       struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, "INSERT OR REPLACE INTO plan (uid, digest, plan, time) VALUES (?, ?, ?, ?)",
        error);

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, transition->plan_uid);
    store_bind_text(statement, 2, transition->plan_digest);
    store_bind_text(statement, 3, transition->plan);
    store_bind_double(statement, 4, transition->time);
    return store_statement_run(statement, error);
}

static int losses_store(struct store_connection *connection, const struct transition *transition,
                        struct error *error)
{
    char message[160];

    snprintf(message, sizeof message,
             "%lld lines of metrics were lost: the disk that holds traind's state had no room for "
             "them when they were written",
             (long long)transition->lost_metrics);
    return warning_store(connection, transition->job, transition->attempt, transition->time,
                         message, error);
}

static int transition_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct transition *transition = data;
    int result = 0;

    if (transition->changes_state)
        result = job_update(connection, transition, error);
    else if (transition->changes_wait)
        result = wait_update(connection, transition, error);
    if (result == 0 && transition->attempt_change != ATTEMPT_UNCHANGED)
        result = attempt_update(connection, transition, error);
    if (result == 0 && transition->lost_metrics > 0)
        result = losses_store(connection, transition, error);
    if (result == 0 && transition->run)
        result = command_history_store(connection, transition->job, transition->device_type,
                                       transition->run, error);
    if (result == 0 && transition->changes_pin)
        result = pin_update(connection, transition, error);
    if (result == 0 && transition->plan)
        result = plan_insert(connection, transition, error);
    return result;
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void transition_hand_in(struct transition *transition);

/* Hands in everything that failed, in its order. */
static void failed_hand_in(struct jobs *jobs)
{
    struct transition *transition = jobs->transitions->first_failed;

    jobs->transitions->first_failed = jobs->transitions->last_failed = NULL;
    while (transition) {
        struct transition *next = transition->next;

        transition->next = NULL;
        transition_hand_in(transition);
        transition = next;
    }
}

static void on_store_timer(uv_timer_t *timer)
{
    failed_hand_in(timer->data);
}

static void failed_append(struct jobs *jobs, struct transition *transition)
{
    if (jobs->transitions->last_failed)
        jobs->transitions->last_failed->next = transition;
    else
        jobs->transitions->first_failed = transition;
    jobs->transitions->last_failed = transition;
}

/* Who waits is told at once: room may come in a week. What was asked for is in effect, but a
 * success would promise what is not on disk. */
static void tell_unstored(struct transition *transition, int result, const struct error *error)
{
    jobs_done done = TAKE_POINTER(transition->done);
    struct error told;

    if (!done)
        return;
    error_set(&told, result,
              transition->jobs->stopping
                  ? "what was asked of job %lld could not be stored, and is lost, as traind ends: "
                    "%.300s"
                  : "what was asked of job %lld is in effect, but could not be stored and is lost "
                    "if traind ends now; it is stored as soon as that works: %.300s",
              (long long)transition->job,
              result == -EAGAIN ? "neither could an earlier change of the job" : error->text);
    done(transition->done_data, result, &told);
}

static void store_again_later(struct transition *transition, int result, const struct error *error)
{
    struct jobs *jobs = transition->jobs;
    char note[LOG_NOTE_MAX];

    if (!jobs->transitions->first_failed &&
        log_throttle_pass(&jobs->transitions->throttle, result, note))
        log_error("a change of job %lld cannot be stored and is tried again: %s%s",
                  (long long)transition->job, error->text, note);
    failed_append(jobs, transition);
    if (!uv_is_active((uv_handle_t *)&jobs->transitions->timer))
        uv_timer_start(&jobs->transitions->timer, on_store_timer, STORE_RETRY_MILLISECONDS, 0);
    tell_unstored(transition, result, error);
}

static void on_transition_stored(void *data, int result, const struct error *error)
{
    struct transition *transition = data;
    struct jobs *jobs = transition->jobs;

    /* nothing before it failed, so nothing will make it fit */
    if (result == -EAGAIN && !jobs->transitions->first_failed && !jobs->stopping) {
        log_error("a change of job %lld was dropped: %s", (long long)transition->job, error->text);
    } else if (result < 0 && !jobs->stopping) {
        store_again_later(transition, result, error);
        return;
    }
    if (transition->finish && result < 0 && jobs->stopping)
        attempt_detach(transition->finish); /* its shim or its record tells the next daemon */
    else if (transition->finish)
        attempt_finish(transition->finish);
    if (result == 0 && !jobs->stopping)
        watches_job_changed(&jobs->daemon->watches, transition->job);
    if (result == 0 && transition->run && !jobs->stopping)
        history_grown(jobs, transition->run_uid, transition->run_digest);
    if (result == 0 && !jobs->stopping)
        jobs->transitions->stored(jobs, transition);
    if (result < 0 && jobs->stopping)
        tell_unstored(transition, result, error);
    else if (transition->done)
        transition->done(transition->done_data, result, error);
    transition_free(transition);
}

/* Whether it may reach the disk a moment later, with others. A reason to wait may, and a start:
 * should the daemon be killed before, the next one finds the attempt by its folder. An end may
 * while other jobs wait in the queue: its shim keeps the record until it is told that the end is
 * stored. */
static bool transition_can_wait(const struct transition *transition)
{
    if (transition->done)
        return false;
    return !transition->changes_state || transition->attempt_change == ATTEMPT_BEGIN ||
           transition->attempt_change == ATTEMPT_RUN ||
           (transition->finish && transition->jobs->classes->job_count > 0);
}

static void transition_hand_in(struct transition *transition)
{
    struct store *store = transition->jobs->daemon->store;

    if (transition_can_wait(transition))
        store_write_soon(store, transition_work, on_transition_stored, transition);
    else
        store_write(store, transition_work, on_transition_stored, transition);
}

void transition_store(struct transition *transition)
{
    /* behind what failed, for its order counts */
    if (transition->jobs->transitions->first_failed)
        failed_append(transition->jobs, transition);
    else
        transition_hand_in(transition);
}

void transitions_stop(struct jobs *jobs)
{
    if (!jobs->transitions)
        return;
    failed_hand_in(jobs);
    uv_close((uv_handle_t *)&jobs->transitions->timer, NULL);
}

bool transitions_are_pending(const struct jobs *jobs)
{
    return jobs->transitions->first_failed != NULL;
}

int transitions_start(struct jobs *jobs, transition_stored stored)
{
    jobs->transitions = calloc(1, sizeof *jobs->transitions);
    if (!jobs->transitions)
        return -ENOMEM;
    uv_timer_init(jobs->daemon->loop, &jobs->transitions->timer);
    jobs->transitions->timer.data = jobs;
    jobs->transitions->stored = stored;
    return 0;
}

void transitions_free(struct jobs *jobs)
{
    struct transition *transition = jobs->transitions ? jobs->transitions->first_failed : NULL;

    while (transition) {
        struct transition *next = transition->next;

        transition_free(transition);
        transition = next;
    }
    free(jobs->transitions);
}
