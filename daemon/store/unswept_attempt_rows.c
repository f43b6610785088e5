/* unswept_attempt_rows.c: see unswept_attempt_rows.h. */
#include "daemon/store/unswept_attempt_rows.h"

#include "daemon/store/statement.h"

static const char upsert_unswept[] =
    "INSERT INTO unswept_attempt (job, attempt) VALUES (:job, :attempt)"
    " ON CONFLICT DO UPDATE SET notes = notes + 1";

static int unswept_attempt_note(struct store_connection *connection, int64_t job, int64_t attempt,
                                struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, upsert_unswept, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":attempt", attempt);
    return statement_run(&statement);
}

int unswept_attempts_note(struct store_connection *connection, int64_t job, int64_t attempts,
                          struct error *error)
{
    int result = 0;

    for (int64_t attempt = 1; attempt <= attempts && result == 0; attempt++)
        result = unswept_attempt_note(connection, job, attempt, error);
    return result;
}

static const char select_notes[] =
    "SELECT notes FROM unswept_attempt WHERE job = :job AND attempt = :attempt";

int unswept_attempt_read(struct store_connection *connection, int64_t job, int64_t attempt,
                         int64_t *notes, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_notes, error);

    statement_bind_int(&row, ":job", job);
    statement_bind_int(&row, ":attempt", attempt);
    *notes = statement_next(&row) > 0 ? statement_int(&row, 0) : 0;
    return row.result < 0 ? row.result : 0;
}

static const char delete_unswept[] =
    "DELETE FROM unswept_attempt WHERE job = :job AND attempt = :attempt AND notes = :notes";

int unswept_attempt_forget(struct store_connection *connection, int64_t job, int64_t attempt,
                           int64_t notes, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_unswept, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":attempt", attempt);
    statement_bind_int(&statement, ":notes", notes);
    return statement_run(&statement);
}

static const char select_unswept[] = "SELECT job, attempt FROM unswept_attempt LIMIT :limit";

int unswept_attempts_read(struct store_connection *connection, int64_t limit,
                          void (*take)(void *data, int64_t job, int64_t attempt), void *data,
                          struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_unswept, error);

    statement_bind_int(&rows, ":limit", limit);
    while (statement_next(&rows) > 0)
        take(data, statement_int(&rows, 0), statement_int(&rows, 1));
    return rows.result;
}
