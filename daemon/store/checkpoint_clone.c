/* checkpoint_clone.c: see checkpoint_clone.h. */
#include "daemon/store/checkpoint_clone.h"

#include "daemon/folder/attempt_folder.h"
#include "daemon/store/checkpoint_limits.h"
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
    " SELECT :job, :attempt, step, epoch, time, bytes, digest, best, location,"
    "   coalesce(:path, path), metrics, coalesce(:uid, uid)"
    "  FROM checkpoint WHERE id = :from";
static const char insert_chunks[] =
    "INSERT INTO checkpoint_chunk (checkpoint, number, digest, data)"
    " SELECT :checkpoint, number, digest, data FROM checkpoint_chunk WHERE checkpoint = :from";

/* Makes checkpoint `from` one of `job`. `path`: its file in the attempt's folder; NULL: the same,
 * as it is in the database. `uid` -1: the same user's. */
static int clone_one(struct store_connection *connection, int64_t from, int64_t job,
                     int64_t attempt, const char *path, int64_t uid, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, insert_copy, error);
    AUTO_STATEMENT struct statement chunks = statement_open(connection, insert_chunks, error);

    statement_bind_int(&row, ":job", job);
    statement_bind_int(&row, ":attempt", attempt);
    statement_bind_int(&row, ":from", from);
    statement_bind_text(&row, ":path", path);
    statement_bind_known(&row, ":uid", uid, -1);
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
        result = clone_one(connection, newest, to, attempt, NULL, -1, error);
    if (result == 0 && best && best != newest)
        result = clone_one(connection, best, to, attempt, NULL, -1, error);
    return result;
}

/* ---- of the job whose run goes on ------------------------------------------------------------ */

struct source_row {
    int64_t step;
    uint64_t bytes;
    bool is_file;
};

static const char select_row[] =
    "SELECT step, bytes, location = 'file' FROM checkpoint WHERE id = :id";

static int source_row_read(struct store_connection *connection, int64_t id, struct source_row *row,
                           struct error *error)
{
    AUTO_STATEMENT struct statement found = statement_open(connection, select_row, error);

    statement_bind_int(&found, ":id", id);
    if (statement_next(&found) < 0)
        return found.result;
    if (found.result == 0)
        return error_set(error, -ENOENT, "the checkpoint that the run goes on from was removed");
    *row = (struct source_row){.step = statement_int(&found, 0),
                               .bytes = (uint64_t)statement_int(&found, 1),
                               .is_file = statement_int(&found, 2) != 0};
    return 0;
}

static const char drop_until[] = SQL_CHECKPOINTS_DROP "job = :job AND step <= :step";

/* What an earlier attempt of this start has inherited. All that the job writes itself is behind
 * `step`. */
static int inherited_drop(struct store_connection *connection, int64_t job, int64_t step,
                          struct error *error)
{
    AUTO_STATEMENT struct statement drop = statement_open(connection, drop_until, error);

    statement_bind_int(&drop, ":job", job);
    statement_bind_int(&drop, ":step", step);
    return statement_run(&drop);
}

static int inherit_one(struct store_connection *connection, struct checkpoint_inheritance *heir,
                       int64_t from, const struct source_row *row, const char *file,
                       struct error *error)
{
    int64_t attempt = row->is_file ? heir->attempt : 0;
    int result = checkpoint_limits_check(connection, &heir->limits, heir->job, attempt, heir->uid,
                                         row->bytes, &heir->refused, error);

    return result < 0 || heir->refused
               ? result
               : clone_one(connection, from, heir->job, attempt, row->is_file ? file : NULL,
                           (int64_t)heir->uid, error);
}

int checkpoints_inherit(struct store_connection *connection, struct checkpoint_inheritance *heir,
                        struct error *error)
{
    struct source_row newest = {0}, best = {0};
    int result = source_row_read(connection, heir->newest, &newest, error);

    heir->refused = NULL;
    if (result == 0)
        result = inherited_drop(connection, heir->job, newest.step, error);
    if (result == 0)
        result = inherit_one(connection, heir, heir->newest, &newest, ATTEMPT_RESUME_FILE, error);
    if (result < 0 || heir->refused || !heir->best)
        return result;
    result = source_row_read(connection, heir->best, &best, error);
    return result < 0 ? result
                      : inherit_one(connection, heir, heir->best, &best, ATTEMPT_BEST_FILE, error);
}
