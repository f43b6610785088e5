/* job_rows.c: rows of the store as the types of io.traind. */
#include "daemon/store/job_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sweep_rows.h"
#include "daemon/types/job_types.h"

#include <errno.h>
#include <math.h>

/* Walks from name to name through the index instead of over every row; 256 of them at most, so that
 * the job fits into a message. */
static int read_last_metrics(struct store_connection *connection, int64_t job,
                             struct json_object *metrics, struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "WITH RECURSIVE names (name) AS ("
        "  SELECT min(name) FROM metric WHERE job = ?1"
        "  UNION ALL"
        "  SELECT (SELECT min(name) FROM metric WHERE job = ?1 AND name > names.name)"
        "    FROM names WHERE names.name IS NOT NULL) "
        "SELECT name, (SELECT value FROM metric WHERE job = ?1 AND metric.name = names.name"
        "  ORDER BY step DESC LIMIT 1) FROM names WHERE name IS NOT NULL LIMIT 256",
        error);
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, job);
    while ((result = store_statement_next(statement, error)) > 0)
        if (sqlite3_column_type(statement, 1) != SQLITE_NULL) /* not a number */
            row_set_double(metrics, (const char *)sqlite3_column_text(statement, 0), statement, 1);
    return result;
}

static struct json_object *read_best(sqlite3_stmt *row, int column)
{
    struct json_object *best;

    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return NULL;
    best = json_object_new_object();
    row_set_text(best, "metric", row, column);
    row_set_double(best, "value", row, column + 1);
    row_set_int(best, "step", row, column + 2);
    row_set_double(best, "epoch", row, column + 3);
    return best;
}

struct json_object *job_row_read(struct store_connection *connection, sqlite3_stmt *row,
                                 struct error *error)
{
    static const struct {
        const char *key;
        void (*set)(struct json_object *object, const char *key, sqlite3_stmt *row, int column);
    } columns[] = {
        {"id", row_set_int},           {"name", row_set_text},    {"kind", row_set_text},
        {"state", row_set_text},       {"user", row_set_text},    {"uid", row_set_int},
        {"priority", row_set_int},     {"device", row_set_text},  {"reason", row_set_text},
        {"wait_reason", row_set_text}, {"attempt", row_set_int},  {"submitted", row_set_double},
        {"started", row_set_double},   {"ended", row_set_double}, {"exit_status", row_set_int},
    };
    enum { COLUMN_COUNT = sizeof columns / sizeof *columns };
    struct json_object *job = json_object_new_object();
    struct json_object *metrics = json_object_new_object();

    for (int i = 0; i < COLUMN_COUNT; i++)
        columns[i].set(job, columns[i].key, row, i);
    json_set(job, "progress", NULL);
    json_set(job, "queue_position", NULL);
    json_set(job, "expected_start", NULL);
    json_set(job, "metrics", metrics);
    json_set(job, "best", read_best(row, COLUMN_COUNT));
    json_set_bool(job, "held", sqlite3_column_int(row, COLUMN_COUNT + 4) != 0);
    row_set_text(job, "group", row, COLUMN_COUNT + 5);
    row_set_int(job, "sweep", row, COLUMN_COUNT + 6);
    row_set_text(job, "pinned", row, COLUMN_COUNT + 7);
    row_set_double(job, "ran", row, COLUMN_COUNT + 8);
    if (read_last_metrics(connection, sqlite3_column_int64(row, 0), metrics, error) < 0) {
        json_object_put(job);
        return NULL;
    }
    return job;
}

int job_row_find(struct store_connection *connection, int64_t id, struct json_object **job,
                 struct error *error)
{
    sqlite3_stmt *statement =
        store_statement(connection, "SELECT " JOB_COLUMNS " FROM job WHERE id = ?", error);
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result == 0)
        return sweep_point_find(connection, id, job, error);
    if (result < 0)
        return result;
    *job = job_row_read(connection, statement, error);
    return *job ? 0 : -EIO;
}

int job_owner_read(struct store_connection *connection, int64_t id, uid_t *owner,
                   struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT uid FROM job WHERE id = ?1 UNION ALL SELECT uid " SWEEP_OF_POINT_TO_COME " LIMIT 1",
        error);
    int result;

    if (!statement)
        return -EIO;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result > 0)
        *owner = (uid_t)sqlite3_column_int64(statement, 0);
    return result;
}

static const char select_state[] = "SELECT state FROM job WHERE id = :job";

int job_state_read(struct store_connection *connection, int64_t id, enum job_state *state,
                   struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_state, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result > 0)
        *state =
            (enum job_state)job_state_from_string((const char *)sqlite3_column_text(statement, 0));
    return result;
}

static const char select_spec[] =
    "SELECT spec, (SELECT plan FROM plan WHERE plan.uid = job.uid AND digest = plan_digest) "
    "FROM job WHERE id = :job";

int job_spec_read(struct store_connection *connection, int64_t id, struct json_object **spec,
                  struct json_object **plan, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_spec, error);
    int result;

    *spec = *plan = NULL;
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result == 0) /* a point of a sweep that is no row yet */
        return sweep_point_read_spec(connection, id, spec, error);
    if (result < 0)
        return result;
    *spec = row_read_object(statement, 0);
    *plan = row_read_object(statement, 1);
    return 0;
}

static const char select_decision[] = "SELECT decision FROM job WHERE id = :job";

int job_decision_read(struct store_connection *connection, int64_t id,
                      struct json_object **decision, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_decision, error);
    int result;

    *decision = NULL;
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result > 0)
        *decision = row_read_object(statement, 0);
    return result < 0 ? result : 0;
}

static const char select_attempt[] = "SELECT uid, state, attempt FROM job WHERE id = :job";

int job_attempt_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     enum job_state *state, int64_t *attempt, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_attempt, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result > 0) {
        *uid = (uid_t)sqlite3_column_int64(statement, 0);
        *state =
            (enum job_state)job_state_from_string((const char *)sqlite3_column_text(statement, 1));
        *attempt = sqlite3_column_int64(statement, 2);
    }
    return result;
}

static const char select_command[] =
    "SELECT uid, plan_digest FROM job WHERE id = :job AND kind = 'command'";

int job_command_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     char digest[JOB_DIGEST_SIZE], struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_command, error);
    int result;

    digest[0] = '\0';
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result > 0 && sqlite3_column_type(statement, 1) == SQLITE_TEXT) {
        *uid = (uid_t)sqlite3_column_int64(statement, 0);
        snprintf(digest, JOB_DIGEST_SIZE, "%s", sqlite3_column_text(statement, 1));
    }
    return result < 0 ? result : digest[0] != '\0';
}

/* ---- lists ----------------------------------------------------------------------------------- */

static sqlite3_stmt *list_statement(struct store_connection *connection,
                                    const struct job_list_query *query, struct error *error)
{
#define OF_USER " AND (?4 < 0 OR uid = ?4)"
#define LIST_SQL(condition)                                                    \
    "SELECT " JOB_COLUMNS                                                      \
    " FROM job WHERE id < ?1 AND (?2 = '' OR instr(?2, ',' || state || ',')) " \
    "AND " condition " ORDER BY id DESC"
    sqlite3_stmt *statement;

    if (query->name && query->uid >= 0)
        statement = store_statement(connection, LIST_SQL("name = ?3 AND uid = ?4"), error);
    else if (query->name)
        statement = store_statement(connection, LIST_SQL("name = ?3"), error);
    else if (query->sweep)
        statement = store_statement(connection, LIST_SQL("sweep = ?3" OF_USER), error);
    else if (query->live_only)
        statement = store_statement(
            connection, LIST_SQL("state NOT IN ('done', 'failed', 'cancelled')" OF_USER), error);
    else
        statement = store_statement(connection, LIST_SQL("1" OF_USER), error);
#undef LIST_SQL
#undef OF_USER
    if (!statement)
        return NULL;
    store_bind_int(statement, 1, query->before);
    store_bind_text(statement, 2, query->states);
    if (query->name)
        store_bind_text(statement, 3, query->name);
    else if (query->sweep)
        store_bind_int(statement, 3, query->sweep);
    if (!query->name || query->uid >= 0)
        store_bind_int(statement, 4, query->uid);
    return statement;
}

static const char select_sweep_owner[] = "SELECT uid FROM sweep WHERE first_job = :sweep";

int job_sweep_owner_read(struct store_connection *connection, int64_t sweep, uid_t *uid,
                         struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_sweep_owner, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, sweep);
    result = store_statement_next(statement, error);
    if (result > 0)
        *uid = (uid_t)sqlite3_column_int64(statement, 0);
    return result;
}

/* among JOB_COLUMNS */
enum { COLUMN_ID = 0, COLUMN_UID = 5 };

int jobs_list_read(struct store_connection *connection, const struct job_list_query *query,
                   bool (*wants)(void *data),
                   void (*take)(void *data, int64_t id, uid_t uid, struct json_object *job),
                   void *data, struct error *error)
{
    sqlite3_stmt *statement = list_statement(connection, query, error);
    int result = statement ? 0 : error->code;

    while (result == 0 && (result = store_statement_next(statement, error)) > 0) {
        struct json_object *job;

        if (!wants(data))
            return 0;
        job = job_row_read(connection, statement, error);
        result = job ? 0 : error->code;
        if (job)
            take(data, sqlite3_column_int64(statement, COLUMN_ID),
                 (uid_t)sqlite3_column_int64(statement, COLUMN_UID), job);
    }
    return result;
}

/* ---- for the job table ----------------------------------------------------------------------- */

static const char update_held[] = "UPDATE job SET held = :held WHERE id = :job";

int job_held_store(struct store_connection *connection, int64_t id, bool held, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, update_held, error);

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, held);
    store_bind_int(statement, 2, id);
    return store_statement_run(statement, error);
}

static const char select_start[] =
    "SELECT job.spec, job.plan_digest, CASE WHEN :plan THEN (SELECT plan FROM plan WHERE plan.uid "
    "= job.uid AND plan.digest = job.plan_digest) END FROM job WHERE job.id = :job";

int job_start_read(struct store_connection *connection, int64_t id, bool wants_plan,
                   struct json_object **spec, char digest[JOB_DIGEST_SIZE],
                   struct json_object **plan, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_start, error);
    int result;

    *spec = *plan = NULL;
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, wants_plan);
    store_bind_int(statement, 2, id);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : error_set(error, -ENOENT, "the job's row is missing");
    result = json_parse((const char *)sqlite3_column_text(statement, 0),
                        (size_t)sqlite3_column_bytes(statement, 0), spec, error);
    if (sqlite3_column_type(statement, 1) != SQLITE_NULL)
        snprintf(digest, JOB_DIGEST_SIZE, "%s", sqlite3_column_text(statement, 1));
    if (result == 0 && sqlite3_column_type(statement, 2) != SQLITE_NULL &&
        json_parse((const char *)sqlite3_column_text(statement, 2),
                   (size_t)sqlite3_column_bytes(statement, 2), plan, NULL) == -ENOMEM)
        result =
            error_set(error, -ENOMEM, "not enough memory"); /* one that is damaged: made anew */
    return result;
}

static const char select_end[] =
    "SELECT name, state, reason, device, exit_status, uid, attempt, spec FROM job WHERE id = :job";

int job_end_read(struct store_connection *connection, int64_t id, struct job_end *end,
                 struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_end, error);
    int result;

    *end = (struct job_end){0};
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, id);
    result = store_statement_next(statement, error);
    if (result <= 0)
        return result < 0 ? result : error_set(error, -ENOENT, "its row is gone");
    for (int i = 0; i < JOB_END_TEXTS; i++) {
        const char *text = (const char *)sqlite3_column_text(statement, i);

        end->texts[i] = strdup(text ? text : "");
    }
    end->state =
        (enum job_state)job_state_from_string((const char *)sqlite3_column_text(statement, 1));
    end->uid = (uid_t)sqlite3_column_int64(statement, 5);
    end->attempts = sqlite3_column_int64(statement, 6);
    return json_parse((const char *)sqlite3_column_text(statement, 7),
                      (size_t)sqlite3_column_bytes(statement, 7), &end->spec, error);
}

void job_end_release(struct job_end *end)
{
    for (int i = 0; i < JOB_END_TEXTS; i++)
        free(end->texts[i]);
    json_object_put(end->spec);
}
