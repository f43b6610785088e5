/* attempt_rows.c: see attempt_rows.h. */
#include "daemon/store/attempt_rows.h"

#include "daemon/store/columns.h"

static const char select_attempts[] =
    "SELECT * FROM (SELECT number, device, pid, started, ended, ending, exit_status, signal,"
    "  message, resumed_from_step, coalesce(detail ->> 'peak_resident_bytes',"
    "  peak_resident_bytes), coalesce(detail ->> 'step_seconds_median', detail ->>"
    "  'step_seconds'), detail ->> 'steps_timed', preemption, energy_joules,"
    "  device_energy_joules, error_kind FROM (SELECT *, (SELECT " STORE_JSON(
        "detail") " FROM"
                  "  event WHERE event.job = attempt.job AND event.attempt = attempt.number AND"
                  "  event.kind = 'result' ORDER BY id DESC LIMIT 1) AS detail FROM attempt) "
                  "AS attempt"
                  "  WHERE attempt.job = :job AND number > 0"
                  "  ORDER BY number DESC LIMIT 200) ORDER BY number";

int attempts_read(struct store_connection *connection, int64_t job, struct json_object *attempts,
                  struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_attempts, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    while ((result = store_statement_next(statement, error)) > 0) {
        struct json_object *attempt = json_object_new_object();

        row_set_int(attempt, "number", statement, 0);
        row_set_text(attempt, "device", statement, 1);
        row_set_int(attempt, "pid", statement, 2);
        row_set_double(attempt, "started", statement, 3);
        row_set_double(attempt, "ended", statement, 4);
        row_set_text(attempt, "ending", statement, 5);
        row_set_int(attempt, "exit_status", statement, 6);
        row_set_int(attempt, "signal", statement, 7);
        row_set_text(attempt, "message", statement, 8);
        row_set_int(attempt, "resumed_from_step", statement, 9);
        row_set_int(attempt, "peak_bytes", statement, 10);
        row_set_double(attempt, "step_seconds", statement, 11);
        row_set_double(attempt, "steps_timed", statement, 12);
        row_set_text(attempt, "preemption", statement, 13);
        row_set_double(attempt, "energy_joules", statement, 14);
        row_set_double(attempt, "device_energy_joules", statement, 15);
        row_set_text(attempt, "error_kind", statement, 16);
        json_object_array_add(attempts, attempt);
    }
    return result;
}

static const char select_decisions[] =
    "SELECT * FROM (SELECT number, decision FROM attempt WHERE job = :job AND number > 0"
    "  AND decision IS NOT NULL ORDER BY number DESC LIMIT 50) ORDER BY number";

int attempt_decisions_read(struct store_connection *connection, int64_t job,
                           void (*take)(void *data, int64_t number, struct json_object *decision),
                           void *data, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_decisions, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    while ((result = store_statement_next(statement, error)) > 0) {
        struct json_object *decision = row_read_object(statement, 1);

        if (decision)
            take(data, sqlite3_column_int64(statement, 0), decision);
    }
    return result;
}

static const char select_ended[] =
    "SELECT ended IS NOT NULL FROM attempt WHERE job = :job AND number = :number";

int attempt_ended_read(struct store_connection *connection, int64_t job, int64_t number,
                       bool *ended, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_ended, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_int(statement, 2, number);
    result = store_statement_next(statement, error);
    *ended = result > 0 && sqlite3_column_int(statement, 0);
    return result;
}
