/* job_update.c: see job_update.h. */
#include "daemon/store/job_update.h"

#include "daemon/store/attempt_rows.h"
#include "daemon/store/command_history_rows.h"
#include "daemon/store/event_rows.h"
#include "daemon/store/plan_rows.h"
#include "daemon/store/statement.h"
#include "daemon/store/transition_rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct job_update job_update_of(int64_t job, int64_t attempt, double time)
{
    return (struct job_update){.job = job,
                               .attempt = attempt,
                               .job_attempt = attempt,
                               .time = time,
                               .started = NAN,
                               .ended = NAN,
                               .exit_status = -1,
                               .attempt_started = NAN,
                               .attempt_ended = NAN,
                               .attempt_suspended_since = NAN,
                               .attempt_exit_status = -1,
                               .cpu_seconds = NAN,
                               .energy_joules = NAN,
                               .device_energy_joules = NAN,
                               .peak_resident_bytes = -1};
}

void job_update_release(struct job_update *update)
{
    free(update->message);
    free(update->plan);
    free(update->decision);
    free(update->run);
}

static const char *text_or_null(const char *text)
{
    return *text ? text : NULL;
}

/* The shim's clock reading gives the end, the daemon's the start. max() ensures that the end is not
 * before the start. */
static const char update_state[] =
    "UPDATE job SET state = :to, reason = coalesce(:reason, reason), wait_reason = :wait_reason,"
    "  device = coalesce(:device, device), attempt = :attempt,"
    "  started = coalesce(started, :started),"
    "  ended = max(:ended, coalesce(started, :started, :ended)),"
    "  exit_status = coalesce(:exit_status, exit_status), decision = coalesce(:decision, decision)"
    " WHERE id = :job AND state = :from";

static int state_update(struct store_connection *connection, const struct job_update *update,
                        const char *reason, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_state, error);

    statement_bind_text(&statement, ":to", job_state_to_string(update->to));
    statement_bind_text(&statement, ":reason", reason);
    statement_bind_text(&statement, ":wait_reason", wait_reason_to_string(update->wait_reason));
    statement_bind_text(&statement, ":device", text_or_null(update->device));
    statement_bind_int(&statement, ":attempt", update->job_attempt);
    statement_bind_double(&statement, ":started", update->started);
    statement_bind_double(&statement, ":ended", update->ended);
    statement_bind_known(&statement, ":exit_status", update->exit_status, -1);
    statement_bind_text(&statement, ":decision", update->decision);
    statement_bind_int(&statement, ":job", update->job);
    statement_bind_text(&statement, ":from", job_state_to_string(update->from));
    if (statement_run(&statement) == 0 && statement_changes(&statement) == 0)
        return error_set(error, -EAGAIN, "job %lld is not %s", (long long)update->job,
                         job_state_to_string(update->from));
    return statement.result;
}

static int state_store(struct store_connection *connection, const struct job_update *update,
                       struct error *error)
{
    const char *reason = update->keeps_reason ? NULL : update->reason;
    int result = state_update(connection, update, reason, error);

    return result < 0 ? result
                      : transition_insert(connection, update->job, update->time,
                                          job_state_to_string(update->from),
                                          job_state_to_string(update->to), reason, error);
}

static const char update_wait[] = "UPDATE job SET reason = :reason, wait_reason = :wait_reason,"
                                  "  decision = coalesce(:decision, decision)"
                                  " WHERE id = :job AND state = 'queued'";

static int wait_store(struct store_connection *connection, const struct job_update *update,
                      struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_wait, error);

    statement_bind_text(&statement, ":reason", update->reason);
    statement_bind_text(&statement, ":wait_reason", wait_reason_to_string(update->wait_reason));
    statement_bind_text(&statement, ":decision", update->decision);
    statement_bind_int(&statement, ":job", update->job);
    return statement_run(&statement);
}

static const char update_pin[] = "UPDATE job SET pinned = :device WHERE id = :job";

static int pin_store(struct store_connection *connection, const struct job_update *update,
                     struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_pin, error);

    statement_bind_text(&statement, ":device", text_or_null(update->pinned));
    statement_bind_int(&statement, ":job", update->job);
    return statement_run(&statement);
}

static int losses_store(struct store_connection *connection, const struct job_update *update,
                        struct error *error)
{
    char message[160];

    snprintf(message, sizeof message,
             "%lld lines of metrics were lost: the disk that holds traind's state had no room for "
             "them when they were written",
             (long long)update->lost_metrics);
    return warning_store(connection, update->job, update->attempt, update->time, message, error);
}

int job_update_store(struct store_connection *connection, const struct job_update *update,
                     struct error *error)
{
    int result = 0;

    if (update->changes_state)
        result = state_store(connection, update, error);
    else if (update->changes_wait)
        result = wait_store(connection, update, error);
    if (result == 0 && update->attempt_change != ATTEMPT_UNCHANGED)
        result = attempt_change_store(connection, update, error);
    if (result == 0 && update->lost_metrics > 0)
        result = losses_store(connection, update, error);
    if (result == 0 && update->run)
        result =
            command_history_store(connection, update->job, update->device_type, update->run, error);
    if (result == 0 && update->changes_pin)
        result = pin_store(connection, update, error);
    if (result == 0 && update->plan)
        result = plan_store(connection, update->plan_uid, update->plan_digest, update->plan,
                            update->time, error);
    return result;
}
