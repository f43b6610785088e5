/* command_history_rows.c: see command_history_rows.h. */
#include "daemon/store/command_history_rows.h"

#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

#include <math.h>

#define COLUMNS \
    "device_type, runs, seconds, squares, cores, memory, device_memory, utilisation, held_none"

static void row_read(const struct statement *from, struct command_history_row *row)
{
    statement_copy_text(from, 0, row->device_type, sizeof row->device_type);
    row->history = (struct command_history){
        .runs = statement_int(from, 1),
        .seconds = statement_double(from, 2),
        .squares = statement_double(from, 3),
        .cores = statement_double(from, 4),
        .memory = (uint64_t)statement_int(from, 5),
        .device_memory = (uint64_t)statement_int(from, 6),
        .utilisation = statement_double(from, 7),
        .held_none = statement_int(from, 8) != 0,
    };
}

static const char select_of_user[] =
    "SELECT " COLUMNS " FROM command_history WHERE uid = :uid AND digest = :digest";

int command_history_read(struct store_connection *connection, uid_t uid, const char *digest,
                         struct command_history_row rows[COMMAND_HISTORY_TYPES_MAX],
                         struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_of_user, error);
    int count = 0;

    statement_bind_int(&row, ":uid", uid);
    statement_bind_text(&row, ":digest", digest);
    while (count < COMMAND_HISTORY_TYPES_MAX && statement_next(&row) > 0)
        row_read(&row, &rows[count++]);
    return row.result < 0 ? row.result : count;
}

static const char select_of_live[] =
    "SELECT " COLUMNS ", job FROM"
    "  (SELECT min(id) AS job, uid AS user, plan_digest FROM job"
    "    WHERE " SQL_LIVE " AND kind = 'command' AND plan_digest IS NOT NULL"
    "    GROUP BY uid, plan_digest)"
    "  JOIN command_history ON uid = user AND digest = plan_digest"
    " ORDER BY job";

int command_histories_live_read(struct store_connection *connection,
                                int (*take)(void *data, int64_t job,
                                            const struct command_history_row *row),
                                void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_of_live, error);

    while (statement_next(&rows) > 0) {
        struct command_history_row row;

        row_read(&rows, &row);
        if (take(data, statement_int(&rows, 9), &row) < 0)
            return error_no_memory(error, "the earlier runs of commands");
    }
    return rows.result;
}

static const char select_of_job[] =
    "SELECT " COLUMNS " FROM job"
    "  JOIN command_history ON command_history.uid = job.uid AND digest = plan_digest"
    "   AND device_type = :device_type"
    " WHERE job.id = :job";

/* Reads the history of the job's command on that type of device; all zero if there is none. */
static int row_find(struct store_connection *connection, int64_t job, const char *device_type,
                    struct command_history_row *row, struct error *error)
{
    AUTO_STATEMENT struct statement found = statement_open(connection, select_of_job, error);

    *row = (struct command_history_row){0};
    statement_bind_int(&found, ":job", job);
    statement_bind_text(&found, ":device_type", device_type);
    if (statement_next(&found) > 0)
        row_read(&found, row);
    return found.result < 0 ? found.result : 0;
}

static const char select_seconds[] =
    "SELECT sum(max(ended - started - suspended, 0)) FROM attempt WHERE job = :job AND number > 0";

/* Sums the seconds of the job's attempts, this one included: an uninterrupted run takes that
 * long. */
static int seconds_sum(struct store_connection *connection, int64_t job, double *seconds,
                       struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_seconds, job, error);

    if (row.result > 0 && !statement_is_null(&row, 0))
        *seconds = statement_double(&row, 0);
    return row.result < 0 ? row.result : 0;
}

/* What is added is always the newest of its user: a clock that ran ahead has left rows of times to
 * come, and none that is written after them may pass for older. */
static const char replace_history[] =
    "INSERT OR REPLACE INTO command_history (uid, digest, " COLUMNS ", added)"
    " SELECT uid, plan_digest, :device_type, :runs, :seconds, :squares, :cores, :memory,"
    "  :device_memory, :utilisation, :held_none,"
    "  max(" SQL_NOW ", coalesce((SELECT max(added) FROM command_history"
    "   WHERE command_history.uid = job.uid), 0) + 0.001)"
    " FROM job WHERE id = :job AND plan_digest IS NOT NULL";

static int row_replace(struct store_connection *connection, int64_t job, const char *device_type,
                       const struct command_history *history, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, replace_history, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_text(&statement, ":device_type", device_type);
    statement_bind_int(&statement, ":runs", history->runs);
    statement_bind_double(&statement, ":seconds", history->seconds);
    statement_bind_double(&statement, ":squares", history->squares);
    statement_bind_double(&statement, ":cores", history->cores);
    statement_bind_int(&statement, ":memory", (int64_t)history->memory);
    statement_bind_int(&statement, ":device_memory", (int64_t)history->device_memory);
    statement_bind_double(&statement, ":utilisation",
                          history->utilisation > 0 ? history->utilisation : NAN);
    statement_bind_int(&statement, ":held_none", history->held_none);
    return statement_run(&statement);
}

/* The surplus is counted up to :deletes, so that no write reads all rows of a user who has many. */
static const char delete_surplus[] =
    "WITH owner (user) AS (SELECT uid FROM job WHERE id = :job)"
    "DELETE FROM command_history WHERE uid = (SELECT user FROM owner)"
    " AND (digest, device_type) IN"
    "  (SELECT digest, device_type FROM command_history"
    "    WHERE uid = (SELECT user FROM owner) AND added <="
    "     (SELECT added FROM command_history WHERE uid = (SELECT user FROM owner)"
    "       ORDER BY added DESC LIMIT 1 OFFSET :newest)"
    "    ORDER BY runs, added"
    "    LIMIT max(0, (SELECT count(*) FROM (SELECT 1 FROM command_history"
    "     WHERE uid = (SELECT user FROM owner) LIMIT :most + :deletes)) - :most))";

/* Forgets commands of the job's owner: each word of a command makes a command of its own, as points
 * of sweeps have them, so those that ran once go before those that are run again and again. The
 * newest stay in any case, else a new command could never show that it is one of the latter. */
static int surplus_delete(struct store_connection *connection, int64_t job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_surplus, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":newest", COMMAND_HISTORY_NEWEST);
    statement_bind_int(&statement, ":most", COMMAND_HISTORY_ROWS_MAX);
    statement_bind_int(&statement, ":deletes", COMMAND_HISTORY_DELETES_MAX);
    return statement_run(&statement);
}

static const char forget_held_none[] =
    "UPDATE command_history SET held_none = 0"
    " WHERE held_none AND (uid, digest) = (SELECT uid, plan_digest FROM job WHERE id = :job)";

/* The rows of all types of device: that of a GPU says it, but the run may have been elsewhere. */
static int held_none_forget(struct store_connection *connection, int64_t job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, forget_held_none, error);

    statement_bind_int(&statement, ":job", job);
    return statement_run(&statement);
}

int command_history_store(struct store_connection *connection, int64_t job, const char *device_type,
                          const struct command_run *run, struct error *error)
{
    struct command_run whole = *run;
    struct command_history_row row = {0};
    bool is_new;
    int result = command_run_refutes_held_none(run) ? held_none_forget(connection, job, error) : 0;

    if (result == 0)
        result = row_find(connection, job, device_type, &row, error);
    if (result == 0 && run->completed && run->resumed)
        result = seconds_sum(connection, job, &whole.seconds, error);
    if (result < 0)
        return result;
    is_new = row.history.runs == 0;
    command_history_add(&row.history, &whole);
    result = row_replace(connection, job, device_type, &row.history, error);
    return result == 0 && is_new ? surplus_delete(connection, job, error) : result;
}
