/* checkpoint_rows.c: see checkpoint_rows.h. */
#include "daemon/store/checkpoint_rows.h"

#include "base/log.h"
#include "base/string_table.h"
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

/* ---- those that go --------------------------------------------------------------------------- */

/* Runs what drops checkpoints. */
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

/* What an earlier attempt wrote under the same name is another file. */
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

/* What was there for this step (a replay, or an earlier attempt) goes, its chunks with it, but for
 * the best checkpoint beside one that was written within the next update's accumulation, which is
 * not the best. Only one of a job is that. */
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

/* A row for `job`, which is negative while its content is being copied. */
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

/* ---- those of earlier attempts --------------------------------------------------------------- */

/* A checkpoint of an earlier attempt that goes. */
struct earlier {
    int64_t id, attempt;
    char *path; /* owned; of one that stays a file, else NULL */
};

/* clang-format off */
#define EARLIER_COLUMNS "id, attempt, CASE location WHEN 'file' THEN path END"
/* The part of the run behind :step happens again. */
static const char select_behind[] =
    "SELECT " EARLIER_COLUMNS " FROM checkpoint"
    " WHERE job = :job AND attempt < :attempt AND step > :step LIMIT 1";
/* A trainee drops its own checkpoints beyond the last `keep` and the best; it knows nothing of what
 * the attempts before it have left. A command has no `keep`: nothing of it is dropped here. */
static const char select_beyond[] =
    "SELECT " EARLIER_COLUMNS " FROM checkpoint"
    " WHERE job = :job AND attempt < :attempt AND NOT best"
    "  AND step < (SELECT step FROM checkpoint WHERE job = :job ORDER BY step DESC LIMIT 1 OFFSET ("
    "    SELECT coalesce(json_extract(" SQL_JSON("spec") ", '$.checkpoint.keep') - 1, 1 << 40)"
    "     FROM job WHERE id = :job))"
    " LIMIT 1";
/* clang-format on */

/* The first that goes because of `step`, the one that the attempt begins with, or (below 0) because
 * the job keeps no more. 1: there is one. */
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
            .path = statement_is_null(&row, 2) ? NULL : strdup(statement_text(&row, 2)),
        };
    return row.result;
}

/* Drops all of them, one at a time: a statement must not be read while its table changes. The files
 * that they stand for go after the commit. */
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
