/* removed_job_rows.c: see removed_job_rows.h. */
#include "daemon/store/removed_job_rows.h"

#include "daemon/store/statement.h"

static const char insert_removed[] = "INSERT OR IGNORE INTO removed_job (id) VALUES (:job)";

int removed_job_note(struct store_connection *connection, int64_t job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_removed, error);

    statement_bind_int(&statement, ":job", job);
    return statement_run(&statement);
}

static const char select_removed[] =
    "SELECT id FROM removed_job WHERE id > :after ORDER BY id LIMIT :limit";

int removed_jobs_read(struct store_connection *connection, int64_t after, size_t limit,
                      int64_t *jobs, size_t *count, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_removed, error);

    *count = 0;
    statement_bind_int(&rows, ":after", after);
    statement_bind_int(&rows, ":limit", (int64_t)limit);
    while (statement_next(&rows) > 0)
        jobs[(*count)++] = statement_int(&rows, 0);
    return rows.result;
}

static const char delete_removed[] = "DELETE FROM removed_job WHERE id = :job";

int removed_job_forget(struct store_connection *connection, int64_t job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_removed, error);

    statement_bind_int(&statement, ":job", job);
    return statement_run(&statement);
}
