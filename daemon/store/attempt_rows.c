/* attempt_rows.c: see attempt_rows.h. */
#include "daemon/store/attempt_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* clang-format off */
static const char select_attempts[] =
    "SELECT * FROM ("
    "  SELECT number, device, pid, started, ended, ending, exit_status, signal, message,"
    "    resumed_from_step, coalesce(detail ->> 'peak_resident_bytes', peak_resident_bytes),"
    "    coalesce(detail ->> 'step_seconds_median', detail ->> 'step_seconds'),"
    "    detail ->> 'steps_timed', preemption, energy_joules, device_energy_joules, error_kind,"
    "    " SQL_ATTEMPT_RAN
    "  FROM ("
    "    SELECT *, (SELECT " SQL_JSON("detail") " FROM event"
    "      WHERE event.job = attempt.job AND event.attempt = attempt.number"
    "       AND event.kind = 'result' ORDER BY id DESC LIMIT 1) AS detail"
    "    FROM attempt) AS attempt"
    "  WHERE attempt.job = :job AND number > 0 ORDER BY number DESC LIMIT 200)"
    " ORDER BY number";
/* clang-format on */

int attempts_read(struct store_connection *connection, int64_t job, struct json_object *attempts,
                  struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_attempts, error);

    statement_bind_int(&rows, ":job", job);
    while (statement_next(&rows) > 0) {
        struct json_object *attempt = json_object_new_object();

        row_set_int(attempt, "number", &rows, 0);
        row_set_text(attempt, "device", &rows, 1);
        row_set_int(attempt, "pid", &rows, 2);
        row_set_double(attempt, "started", &rows, 3);
        row_set_double(attempt, "ended", &rows, 4);
        row_set_text(attempt, "ending", &rows, 5);
        row_set_int(attempt, "exit_status", &rows, 6);
        row_set_int(attempt, "signal", &rows, 7);
        row_set_text(attempt, "message", &rows, 8);
        row_set_int(attempt, "resumed_from_step", &rows, 9);
        row_set_int(attempt, "peak_bytes", &rows, 10);
        row_set_double(attempt, "step_seconds", &rows, 11);
        row_set_double(attempt, "steps_timed", &rows, 12);
        row_set_text(attempt, "preemption", &rows, 13);
        row_set_double(attempt, "energy_joules", &rows, 14);
        row_set_double(attempt, "device_energy_joules", &rows, 15);
        row_set_text(attempt, "error_kind", &rows, 16);
        row_set_double(attempt, "ran", &rows, 17);
        json_object_array_add(attempts, attempt);
    }
    return rows.result;
}

static const char select_decisions[] =
    "SELECT * FROM (SELECT number, decision FROM attempt"
    "  WHERE job = :job AND number > 0 AND decision IS NOT NULL ORDER BY number DESC LIMIT 50)"
    " ORDER BY number";

int attempt_decisions_read(struct store_connection *connection, int64_t job,
                           void (*take)(void *data, int64_t number, struct json_object *decision),
                           void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_decisions, error);

    statement_bind_int(&rows, ":job", job);
    while (statement_next(&rows) > 0) {
        struct json_object *decision = row_read_object(&rows, 1);

        if (decision)
            take(data, statement_int(&rows, 0), decision);
    }
    return rows.result;
}

static const char select_ended[] =
    "SELECT ended IS NOT NULL FROM attempt WHERE job = :job AND number = :number";

int attempt_ended_read(struct store_connection *connection, int64_t job, int64_t number,
                       bool *ended, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_ended, error);

    statement_bind_int(&row, ":job", job);
    statement_bind_int(&row, ":number", number);
    *ended = statement_next(&row) > 0 && statement_int(&row, 0) != 0;
    return row.result;
}

/* ---- changes --------------------------------------------------------------------------------- */

static const char insert_attempt[] =
    "INSERT OR REPLACE INTO attempt (job, number, device, started, decision)"
    " VALUES (:job, :number, :device, :started, :decision)";

static void begin_bind(struct statement *statement, const struct job_update *update)
{
    statement_bind_text(statement, ":device", update->device);
    statement_bind_double(statement, ":started", update->attempt_started);
    statement_bind_text(statement, ":decision", update->decision);
}

static const char update_run[] =
    "UPDATE attempt SET started = :started, pid = :pid, device = coalesce(:device, device)"
    " WHERE job = :job AND number = :number";

static void run_bind(struct statement *statement, const struct job_update *update)
{
    statement_bind_double(statement, ":started", update->attempt_started);
    statement_bind_known(statement, ":pid", update->pid, 0);
    statement_bind_text(statement, ":device", *update->device ? update->device : NULL);
}

/* clang-format off */
/* The decision that ends it stands beside the one that started it. */
static const char update_intent[] =
    "UPDATE attempt SET ending = :ending, preemption = coalesce(:preemption, preemption),"
    "  decision = iif(:decision IS NULL, decision,"
    "    json_set(coalesce(" SQL_JSON("decision") ", '{}'), '$.leaves', json(:decision)))"
    " WHERE job = :job AND number = :number";
/* clang-format on */

static void intent_bind(struct statement *statement, const struct job_update *update)
{
    statement_bind_text(statement, ":ending", ending_to_string(update->ending));
    statement_bind_text(statement, ":preemption", preemption_to_string(update->preemption));
    statement_bind_text(statement, ":decision", update->decision);
}

static const char update_suspended[] =
    "UPDATE attempt SET suspended = :suspended, suspended_since = :suspended_since"
    " WHERE job = :job AND number = :number";

static void suspend_bind(struct statement *statement, const struct job_update *update)
{
    statement_bind_double(statement, ":suspended", update->attempt_suspended);
    statement_bind_double(statement, ":suspended_since", update->attempt_suspended_since);
}

static const char update_end[] =
    "UPDATE attempt SET started = coalesce(:started, started), ended = :ended, ending = :ending,"
    "  suspended = :suspended, suspended_since = NULL,"
    "  exit_status = :exit_status, signal = :signal, message = coalesce(:message, message),"
    "  error_kind = coalesce(:error_kind, error_kind), peak_resident_bytes = :peak_resident_bytes,"
    "  cpu_seconds = :cpu_seconds, energy_joules = :energy_joules,"
    "  device_energy_joules = :device_energy_joules"
    " WHERE job = :job AND number = :number";

static void end_bind(struct statement *statement, const struct job_update *update)
{
    statement_bind_double(statement, ":started", update->attempt_started);
    statement_bind_double(statement, ":ended", update->attempt_ended);
    statement_bind_double(statement, ":suspended", update->attempt_suspended);
    statement_bind_text(statement, ":ending", ending_to_string(update->ending));
    statement_bind_known(statement, ":exit_status", update->attempt_exit_status, -1);
    statement_bind_known(statement, ":signal", update->signal, 0);
    statement_bind_text(statement, ":message", update->message);
    statement_bind_text(statement, ":error_kind", *update->error_kind ? update->error_kind : NULL);
    statement_bind_known(statement, ":peak_resident_bytes", update->peak_resident_bytes, -1);
    statement_bind_double(statement, ":cpu_seconds", update->cpu_seconds);
    statement_bind_double(statement, ":energy_joules", update->energy_joules);
    statement_bind_double(statement, ":device_energy_joules", update->device_energy_joules);
}

static const char delete_attempt[] = "DELETE FROM attempt WHERE job = :job AND number = :number";

int attempt_change_store(struct store_connection *connection, const struct job_update *update,
                         struct error *error)
{
    static const struct {
        const char *sql;
        void (*bind)(struct statement *statement, const struct job_update *update);
    } changes[] = {
        [ATTEMPT_BEGIN] = {insert_attempt, begin_bind},
        [ATTEMPT_RUN] = {update_run, run_bind},
        [ATTEMPT_INTEND] = {update_intent, intent_bind},
        [ATTEMPT_SUSPEND] = {update_suspended, suspend_bind},
        [ATTEMPT_END] = {update_end, end_bind},
        [ATTEMPT_DELETE] = {delete_attempt, NULL},
    };
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, changes[update->attempt_change].sql, error);

    statement_bind_int(&statement, ":job", update->job);
    statement_bind_int(&statement, ":number", update->attempt);
    if (changes[update->attempt_change].bind)
        changes[update->attempt_change].bind(&statement, update);
    return statement_run(&statement);
}

static const char update_resumed[] =
    "UPDATE attempt SET resumed_from_step = :step WHERE job = :job AND number = :number";
static const char update_message[] =
    "UPDATE attempt SET message = :message WHERE job = :job AND number = :number";

int attempt_resumed_store(struct store_connection *connection, int64_t job, int64_t number,
                          int64_t step, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_resumed, error);

    statement_bind_int(&statement, ":step", step);
    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":number", number);
    return statement_run(&statement);
}

int attempt_message_store(struct store_connection *connection, int64_t job, int64_t number,
                          const char *message, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_message, error);

    statement_bind_text(&statement, ":message", message);
    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":number", number);
    return statement_run(&statement);
}
