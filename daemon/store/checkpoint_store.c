/* checkpoint_store.c: handles the `checkpoint` records of a spool. It stores new checkpoints in
 * checkpoints.db or keeps them as files, and drops those that the trainee dropped. */
#include "base/file.h"
#include "daemon/folder/attempt_folder.h"
#include "daemon/store/checkpoint_copy.h"
#include "daemon/store/checkpoint_files.h"
#include "daemon/store/checkpoint_limits.h"
#include "daemon/store/checkpoint_purge.h"
#include "daemon/store/checkpoint_removals.h"
#include "daemon/store/checkpoint_rows.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

/* ---- new checkpoints ------------------------------------------------------------------------- */

/* For a checkpoint that stays a file, the record must name that file. */
static const char update_known[] =
    "UPDATE checkpoint SET epoch = :epoch, time = :time, best = max(best, :best),"
    "  metrics = :metrics"
    " WHERE job = :job AND step = :step AND attempt = :attempt AND bytes = :bytes"
    "  AND digest = :digest AND (location = 'database' OR path = :path)";

/* A repeated record of a stored checkpoint, for example if the last step is also a regular one,
 * changes only what is said about it. Returns 1 if there is such a checkpoint. */
static int known_update(struct store_connection *connection, const struct spool_store *request,
                        const struct spool_record *record, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_known, error);
    struct json_object *object = record->object, *metrics = json_get(object, "metrics");
    int64_t step = json_get_int(object, "step", 0);
    bool best = json_get_bool(object, "best", false);
    int result;

    statement_bind_double(&statement, ":epoch", json_get_double(object, "epoch", NAN));
    statement_bind_double(&statement, ":time", record->time);
    statement_bind_int(&statement, ":best", best);
    statement_bind_text(&statement, ":metrics", metrics ? json_text(metrics, NULL) : "{}");
    statement_bind_int(&statement, ":job", request->job);
    statement_bind_int(&statement, ":step", step);
    statement_bind_int(&statement, ":attempt", request->attempt);
    statement_bind_int(&statement, ":bytes", json_get_int(object, "bytes", 0));
    statement_bind_text(&statement, ":digest", json_get_string(object, "digest", ""));
    statement_bind_text(&statement, ":path", json_get_string(object, "path", ""));
    if (statement_run(&statement) < 0 || statement_changes(&statement) == 0)
        return statement.result;
    result = best ? checkpoints_best_clear(connection, request->job, step, error) : 0;
    return result < 0 ? result : 1;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Stores the record's removals: a row goes in this transaction, a file after it. */
static int removals_store(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, struct error *error)
{
    struct json_object *remove = json_get(record->object, "remove");

    if (!remove || !json_object_is_type(remove, json_type_array))
        return 0;
    for (size_t i = 0; i < json_object_array_length(remove); i++) {
        const char *path = json_object_get_string(json_object_array_get_idx(remove, i));
        int result = path ? checkpoint_row_drop(connection, request, path, error) : 0;

        if (result == 0 && path)
            result = checkpoint_obsolete_add(request, request->attempt, path);
        if (result < 0)
            return result;
    }
    return 0;
}

/* Stores a new checkpoint. Returns 1 while bytes remain to be copied, or while later records remain
 * to be searched for its removal. */
static int file_store(struct store_connection *connection, struct spool_store *request,
                      const struct spool_record *record, struct error *error)
{
    const char *path = json_get_string(record->object, "path", ""), *why;
    struct error reason = {0};
    AUTO_CLOSE int file = attempt_folder_open_file(request->folder, path, request->uid, &reason);
    struct stat status;
    int result;

    if (file_opens_later(file)) {
        *error = reason;
        return file;
    }
    if (file == -ENOENT && request->complaints < SPOOL_COMPLAINTS_MAX)
        switch (checkpoint_removals_follow(request, record, path)) {
        case REMOVALS_HAVE:
            return 0;
        case REMOVALS_UNREAD:
            return 1;
        case REMOVALS_LACK:
            break;
        }
    if (file < 0 || fstat(file, &status) < 0)
        return checkpoint_complain(connection, request, record, reason.text, error);
    if (status.st_size != json_get_int(record->object, "bytes", -1))
        return checkpoint_complain(connection, request, record,
                                   "its file does not have the announced size", error);
    if (checkpoint_file_has_holes(file, &status))
        return checkpoint_complain(connection, request, record,
                                   "its file has holes; write all of its bytes to the disk", error);
    result = checkpoint_limits_check(connection, &request->limits, request->job, request->attempt,
                                     request->uid, (uint64_t)status.st_size, &why, error);
    if (result < 0)
        return result;
    if (why)
        return checkpoint_complain(connection, request, record, why, error);
    if ((uint64_t)status.st_size > request->limits.database)
        return checkpoint_file_keep(connection, request, record, &status, error);
    return checkpoint_copy_begin(connection, request, record, TAKE_DESCRIPTOR(file), &status,
                                 error);
}

int checkpoint_store(struct store_connection *connection, struct spool_store *request,
                     const struct spool_record *record, struct error *error)
{
    int result;

    if (request->copy.under_way) {
        result = checkpoint_copy_go_on(connection, request, record, error);
    } else {
        result = known_update(connection, request, record, error);
        result = result < 0   ? result
                 : result > 0 ? 0
                              : file_store(connection, request, record, error);
    }
    if (result != 0)
        return result;
    result = removals_store(connection, request, record, error);
    return result < 0 ? result : checkpoint_earlier_retain(connection, request, error);
}

/* ---- at a start ------------------------------------------------------------------------------ */

static const char drop_half_copied[] = SQL_CHECKPOINTS_DROP "job < 0";
static const char update_users[] =
    "UPDATE checkpoint SET uid = (SELECT uid FROM job WHERE job.id = checkpoint.job)"
    " WHERE uid IS NULL AND job <> 0";

static int tidy_work(struct store_connection *connection, void *data, struct error *error)
{
    AUTO_STATEMENT struct statement drop = statement_open(connection, drop_half_copied, error);
    AUTO_STATEMENT struct statement update = statement_open(connection, update_users, error);

    (void)data;
    return statement_run(&drop) < 0 ? drop.result : statement_run(&update);
}

static void on_tidied(void *data, int result, const struct error *error)
{
    (void)result; /* after a failure the next start repeats this */
    (void)error;
    checkpoints_purge(data);
}

void checkpoints_tidy(struct checkpoint_purge *purge)
{
    store_write(purge->store, tidy_work, on_tidied, purge);
}
