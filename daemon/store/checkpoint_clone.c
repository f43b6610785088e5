/* checkpoint_clone.c: see checkpoint_clone.h. */
#include "daemon/store/checkpoint_clone.h"

#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

#include <errno.h>

static const char select_newest[] = "SELECT id, location = 'database' FROM checkpoint"
                                    " WHERE job = :job ORDER BY step DESC, id DESC LIMIT 1";
static const char select_best[] = "SELECT id FROM checkpoint"
                                  " WHERE job = :job AND best AND location = 'database'";
static const char drop_all[] = SQL_CHECKPOINTS_DROP "job = :job";
static const char insert_copy[] =
    "INSERT INTO checkpoint"
    " (job, attempt, step, epoch, time, bytes, digest, best, location, path, metrics, uid)"
    " SELECT :job, :attempt, step, epoch, time, bytes, digest, best, location, path, metrics, uid"
    "  FROM checkpoint WHERE id = :from";
static const char insert_chunks[] =
    "INSERT INTO checkpoint_chunk (checkpoint, number, digest, data)"
    " SELECT :checkpoint, number, digest, data FROM checkpoint_chunk WHERE checkpoint = :from";

static int clone_one(struct store_connection *connection, int64_t from, int64_t job,
                     int64_t attempt, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, insert_copy, error);
    AUTO_STATEMENT struct statement chunks = statement_open(connection, insert_chunks, error);

    statement_bind_int(&row, ":job", job);
    statement_bind_int(&row, ":attempt", attempt);
    statement_bind_int(&row, ":from", from);
    if (statement_run(&row) < 0)
        return row.result;
    statement_bind_int(&chunks, ":checkpoint", statement_row_id(&row));
    statement_bind_int(&chunks, ":from", from);
    return statement_run(&chunks);
}

static int newest_find(struct store_connection *connection, int64_t job, int64_t *id,
                       struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_newest, error);

    statement_bind_int(&row, ":job", job);
    if (statement_next(&row) < 0)
        return row.result;
    if (row.result == 0)
        return error_set(error, -ENOENT, "job %lld has no checkpoint", (long long)job);
    if (!statement_int(&row, 1))
        return error_set(error, -ENOENT,
                         "the checkpoint of job %lld is a file of its own (DatabaseLimit)",
                         (long long)job);
    *id = statement_int(&row, 0);
    return 0;
}

/* `*id` is 0 if there is none. */
static int best_find(struct store_connection *connection, int64_t job, int64_t *id,
                     struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_best, error);

    statement_bind_int(&row, ":job", job);
    *id = statement_next(&row) > 0 ? statement_int(&row, 0) : 0;
    return row.result < 0 ? row.result : 0;
}

int checkpoints_clone(struct store_connection *connection, int64_t from, int64_t to,
                      int64_t attempt, struct error *error)
{
    AUTO_STATEMENT struct statement drop = statement_open(connection, drop_all, error);
    int64_t newest = 0, best = 0;
    int result = newest_find(connection, from, &newest, error);

    if (result == 0)
        result = best_find(connection, from, &best, error);
    if (result < 0)
        return result;
    statement_bind_int(&drop, ":job", to);
    result = statement_run(&drop);
    if (result == 0)
        result = clone_one(connection, newest, to, attempt, error);
    if (result == 0 && best && best != newest)
        result = clone_one(connection, best, to, attempt, error);
    return result;
}
