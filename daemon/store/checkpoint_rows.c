/* checkpoint_rows.c: see checkpoint_rows.h. */
#include "daemon/store/checkpoint_rows.h"

#include "base/log.h"
#include "base/string_table.h"
#include "daemon/store/checkpoint_purge.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int checkpoint_obsolete_add(struct spool_store *request, int64_t attempt, const char *path)
{
    struct obsolete_file *grown =
        realloc(request->obsolete, (request->obsolete_count + 1) * sizeof *grown);

    if (!grown)
        return -ENOMEM;
    request->obsolete = grown;
    grown[request->obsolete_count] = (struct obsolete_file){attempt, strdup(path)};
    if (!grown[request->obsolete_count].path)
        return -ENOMEM;
    request->obsolete_count++;
    return 0;
}

/* Runs what drops checkpoints. */
int checkpoint_rows_drop(struct store_connection *connection, struct spool_store *request,
                         sqlite3_stmt *statement, struct error *error)
{
    int result = store_statement_run(statement, error);

    request->dropped |= result == 0 && sqlite3_changes(store_database(connection)) > 0;
    return result;
}

/* What an earlier attempt wrote under the same name is another file. */
int checkpoint_row_drop(struct store_connection *connection, struct spool_store *request,
                        const char *path, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, CHECKPOINTS_DROP "WHERE job = ? AND attempt = ? AND path = ?", error);

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, request->job);
    store_bind_int(statement, 2, request->attempt);
    store_bind_text(statement, 3, path);
    return checkpoint_rows_drop(connection, request, statement, error);
}

/* What was there for this step (a replay, or an earlier attempt) goes, its chunks with it, but for
 * the best checkpoint beside one that was written within the next update's accumulation, which is
 * not the best. Only one of a job is that. */
int checkpoint_predecessors_drop(struct store_connection *connection, struct spool_store *request,
                                 int64_t job, int64_t step, bool best, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection, CHECKPOINTS_DROP "WHERE job = ? AND step = ? AND (? OR NOT best)", error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_int(statement, 2, step);
    store_bind_int(statement, 3, best);
    result = checkpoint_rows_drop(connection, request, statement, error);
    if (result < 0 || !best)
        return result;
    statement =
        store_statement(connection, "UPDATE checkpoint SET best = 0 WHERE job = ? AND best", error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    return store_statement_run(statement, error);
}

/* A row for `job`, which is negative while its content is being copied. */
int checkpoint_row_insert(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, int64_t job, bool in_database,
                          int64_t *id, struct error *error)
{
    struct json_object *object = record->object, *metrics = json_get(object, "metrics");
    int64_t step = json_get_int(object, "step", 0);
    bool best = json_get_bool(object, "best", false);
    sqlite3_stmt *statement;
    int result = checkpoint_predecessors_drop(connection, request, job, step, best, error);

    if (result < 0)
        return result;
    statement = store_statement(connection,
                                "INSERT INTO checkpoint (job, attempt, step, epoch, time, bytes, "
                                "digest, best, location, path, metrics, uid) VALUES (?, ?, ?, ?, "
                                "?, ?, ?, ?, ?, ?, ?, ?)",
                                error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_int(statement, 2, request->attempt);
    store_bind_int(statement, 3, step);
    store_bind_double(statement, 4, json_get_double(object, "epoch", NAN));
    store_bind_double(statement, 5, record->time);
    store_bind_int(statement, 6, json_get_int(object, "bytes", 0));
    store_bind_text(statement, 7, json_get_string(object, "digest", ""));
    store_bind_int(statement, 8, best);
    store_bind_text(statement, 9, in_database ? "database" : "file");
    store_bind_text(statement, 10, json_get_string(object, "path", ""));
    store_bind_text(statement, 11, metrics ? json_text(metrics, NULL) : "{}");
    store_bind_int(statement, 12, request->uid);
    result = store_statement_run(statement, error);
    *id = sqlite3_last_insert_rowid(store_database(connection));
    return result;
}

/* Why a checkpoint was not taken, for the user and the log: so often for one attempt. */
int checkpoint_complain(struct store_connection *connection, struct spool_store *request,
                        const struct spool_record *record, const char *why, struct error *error)
{
    char message[ERROR_TEXT_MAX];

    if (request->complaints >= SPOOL_COMPLAINTS_MAX)
        return 0;
    request->complaints++;
    snprintf(message, sizeof message, "the checkpoint of step %lld was not taken: %.800s%s",
             (long long)json_get_int(record->object, "step", 0), why,
             request->complaints == SPOOL_COMPLAINTS_MAX ? "; no more of this is reported" : "");
    log_warning("job %lld: %s", (long long)request->job, message);
    return warning_store(connection, request->job, request->attempt, record->time, message, error);
}

/* Drops the row `id` of an earlier attempt; a file that it stands for goes after the commit. */
static int earlier_drop(struct store_connection *connection, struct spool_store *request,
                        int64_t id, int64_t attempt, const char *path, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, CHECKPOINTS_DROP "WHERE id = ?", error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = checkpoint_rows_drop(connection, request, statement, error);
    if (result == 0 && path)
        result = checkpoint_obsolete_add(request, attempt, path);
    return result;
}

/* Drops what `query` (id, attempt, path of a file or null; parameters ?1 job, ?2 attempt, ?3
 * step) finds. */
static int earlier_drop_all(struct store_connection *connection, struct spool_store *request,
                            const char *query, int64_t step, struct error *error)
{
    for (;;) { /* one at a time: a statement must not be read while its table changes */
        sqlite3_stmt *statement = store_statement(connection, query, error);
        AUTO_FREE char *path = NULL;
        int64_t id, attempt;
        int result;

        if (!statement)
            return error->code;
        store_bind_int(statement, 1, request->job);
        store_bind_int(statement, 2, request->attempt);
        if (sqlite3_bind_parameter_count(statement) > 2)
            store_bind_int(statement, 3, step);
        result = store_statement_next(statement, error);
        if (result <= 0)
            return result;
        id = sqlite3_column_int64(statement, 0);
        attempt = sqlite3_column_int64(statement, 1);
        if (sqlite3_column_type(statement, 2) != SQLITE_NULL)
            path = strdup((const char *)sqlite3_column_text(statement, 2));
        result = earlier_drop(connection, request, id, attempt, path, error);
        if (result < 0)
            return result;
    }
}

int checkpoints_supersede(struct store_connection *connection, struct spool_store *request,
                          int64_t step, struct error *error)
{
    return earlier_drop_all(connection, request,
                            "SELECT id, attempt, CASE location WHEN 'file' THEN path END FROM "
                            "checkpoint WHERE job = ?1 AND attempt < ?2 AND step > ?3 LIMIT 1",
                            step, error);
}

/* A trainee drops its own checkpoints beyond the last `keep` and the best; it knows nothing of what
 * the attempts before it have left. A command has no `keep`: nothing of it is dropped here. */
int checkpoint_earlier_retain(struct store_connection *connection, struct spool_store *request,
                              struct error *error)
{
    return earlier_drop_all(
        connection, request,
        "SELECT id, attempt, CASE location WHEN 'file' THEN path END FROM checkpoint "
        "WHERE job = ?1 AND attempt < ?2 AND NOT best AND step < (SELECT step FROM checkpoint "
        "WHERE job = ?1 ORDER BY step DESC LIMIT 1 OFFSET (SELECT "
        "coalesce(json_extract(" STORE_JSON(
            "spec") ", '$.checkpoint.keep') - 1, 1 << 40) FROM job WHERE id = ?1)) "
                    "LIMIT 1",
        0, error);
}
