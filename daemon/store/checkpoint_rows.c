/* checkpoint_rows.c: see checkpoint_rows.h. */
#include "daemon/store/checkpoint_rows.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/store/event_rows.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

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

/* ---- dropping -------------------------------------------------------------------------------- */

/* Runs a statement that drops checkpoints. */
static int drop_run(struct spool_store *request, struct statement *statement)
{
    request->dropped |= statement_run(statement) == 0 && statement_changes(statement) > 0;
    return statement->result;
}

static const char drop_one[] = SQL_CHECKPOINTS_DROP "id = :id";

int checkpoint_drop(struct store_connection *connection, struct spool_store *request, int64_t id,
                    struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, drop_one, error);

    statement_bind_int(&statement, ":id", id);
    return drop_run(request, &statement);
}

static const char drop_file[] =
    SQL_CHECKPOINTS_DROP "job = :job AND attempt = :attempt AND path = :path";

/* A file of the same name in an earlier attempt's folder is another file. */
int checkpoint_row_drop(struct store_connection *connection, struct spool_store *request,
                        const char *path, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, drop_file, error);

    statement_bind_int(&statement, ":job", request->job);
    statement_bind_int(&statement, ":attempt", request->attempt);
    statement_bind_text(&statement, ":path", path);
    return drop_run(request, &statement);
}

static const char clear_best[] =
    "UPDATE checkpoint SET best = 0 WHERE job = :job AND best AND step <> :step";

int checkpoints_best_clear(struct store_connection *connection, int64_t job, int64_t step,
                           struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, clear_best, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":step", step);
    return statement_run(&statement);
}

static const char drop_step[] =
    SQL_CHECKPOINTS_DROP "job = :job AND step = :step AND (:best OR NOT best)";

/* Drops the job's checkpoints of this step, which come from a replay or an earlier attempt. One
 * stays: the best checkpoint, if the new one of the same step is not the best. That happens if the
 * new one was written during the gradient accumulation of the next update. Only one checkpoint of a
 * job is the best. */
int checkpoint_predecessors_drop(struct store_connection *connection, struct spool_store *request,
                                 int64_t job, int64_t step, bool best, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, drop_step, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":step", step);
    statement_bind_int(&statement, ":best", best);
    if (drop_run(request, &statement) < 0 || !best)
        return statement.result;
    return checkpoints_best_clear(connection, job, step, error);
}

/* ---- a new one ------------------------------------------------------------------------------- */

static const char insert_checkpoint[] =
    "INSERT INTO checkpoint"
    " (job, attempt, step, epoch, time, bytes, digest, best, location, path, metrics, uid) VALUES"
    " (:job, :attempt, :step, :epoch, :time, :bytes, :digest, :best, :location, :path, :metrics,"
    "  :uid)";

int checkpoint_row_insert(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, int64_t job, bool in_database,
                          int64_t *id, struct error *error)
{
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, insert_checkpoint, error);
    struct json_object *object = record->object, *metrics = json_get(object, "metrics");
    int64_t step = json_get_int(object, "step", 0);
    bool best = json_get_bool(object, "best", false);
    int result = checkpoint_predecessors_drop(connection, request, job, step, best, error);

    if (result < 0)
        return result;
    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":attempt", request->attempt);
    statement_bind_int(&statement, ":step", step);
    statement_bind_double(&statement, ":epoch", json_get_double(object, "epoch", NAN));
    statement_bind_double(&statement, ":time", record->time);
    statement_bind_int(&statement, ":bytes", json_get_int(object, "bytes", 0));
    statement_bind_text(&statement, ":digest", json_get_string(object, "digest", ""));
    statement_bind_int(&statement, ":best", best);
    statement_bind_text(&statement, ":location", in_database ? "database" : "file");
    statement_bind_text(&statement, ":path", json_get_string(object, "path", ""));
    statement_bind_text(&statement, ":metrics", metrics ? json_text(metrics, NULL) : "{}");
    statement_bind_int(&statement, ":uid", request->uid);
    if (statement_run(&statement) == 0)
        *id = statement_row_id(&statement);
    return statement.result;
}

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

/* ---- earlier attempts ------------------------------------------------------------------------ */

/* A checkpoint of an earlier attempt that is to be dropped. */
struct earlier {
    int64_t id, attempt;
    char *path; /* owned; NULL: the content is in the database */
};

/* clang-format off */
#define EARLIER_COLUMNS "id, attempt, CASE location WHEN 'file' THEN path END"
/* The run repeats the steps behind :step. */
static const char select_behind[] =
    "SELECT " EARLIER_COLUMNS " FROM checkpoint"
    " WHERE job = :job AND attempt < :attempt AND step > :step LIMIT 1";
/* A trainee drops its own checkpoints except the last `keep` and the best. It does not know the
 * checkpoints of earlier attempts. A command has no `keep`, so none of its checkpoints are dropped
 * here. */
static const char select_beyond[] =
    "SELECT " EARLIER_COLUMNS " FROM checkpoint"
    " WHERE job = :job AND attempt < :attempt AND NOT best"
    "  AND step < (SELECT step FROM checkpoint WHERE job = :job ORDER BY step DESC LIMIT 1 OFFSET ("
    "    SELECT coalesce(json_extract(" SQL_JSON("spec") ", '$.checkpoint.keep') - 1, 1 << 40)"
    "     FROM job WHERE id = :job))"
    " LIMIT 1";
/* clang-format on */

/* Finds the first checkpoint to be dropped: one behind `step`, where the attempt begins, or, if
 * `step` is below 0, one beyond what the job keeps. Returns 1 if there is one. */
static int earlier_find(struct store_connection *connection, const struct spool_store *request,
                        int64_t step, struct earlier *earlier, struct error *error)
{
    AUTO_STATEMENT struct statement row =
        statement_open(connection, step < 0 ? select_beyond : select_behind, error);

    statement_bind_int(&row, ":job", request->job);
    statement_bind_int(&row, ":attempt", request->attempt);
    if (step >= 0)
        statement_bind_int(&row, ":step", step);
    if (statement_next(&row) > 0)
        *earlier = (struct earlier){
            .id = statement_int(&row, 0),
            .attempt = statement_int(&row, 1),
            .path = statement_is_null(&row, 2) ? NULL : memory_copy_text(statement_text(&row, 2)),
        };
    return row.result;
}

/* Drops them one at a time, because a statement must not be read while its table changes. Their
 * files are removed after the commit. */
static int earlier_drop(struct store_connection *connection, struct spool_store *request,
                        int64_t step, struct error *error)
{
    struct earlier earlier = {0};
    int result;

    while ((result = earlier_find(connection, request, step, &earlier, error)) > 0) {
        AUTO_FREE char *path = earlier.path;

        result = checkpoint_drop(connection, request, earlier.id, error);
        if (result == 0 && path)
            result = checkpoint_obsolete_add(request, earlier.attempt, path);
        if (result < 0)
            return result;
    }
    return result;
}

int checkpoints_supersede(struct store_connection *connection, struct spool_store *request,
                          int64_t step, struct error *error)
{
    return earlier_drop(connection, request, step, error);
}

int checkpoint_earlier_retain(struct store_connection *connection, struct spool_store *request,
                              struct error *error)
{
    return earlier_drop(connection, request, -1, error);
}
