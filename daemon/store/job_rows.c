/* job_rows.c: see job_rows.h. */
#include "daemon/store/job_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"
#include "daemon/store/sweep_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a Job of io.traind ---------------------------------------------------------------------- */

/* clang-format off */
/* In the order of job_columns[]; enum COLUMN_… names the columns behind those. */
#define JOB_COLUMNS \
    "id, name, kind, state, user, uid, priority, device, reason, wait_reason, attempt, submitted," \
    " started, ended, exit_status, best_metric, best_value, best_step, best_epoch, held," \
    " job_group, sweep, pinned," \
    " " SQL_RAN "," \
    " state = 'cancelled' AND sweep IS NOT NULL AND " SQL_STOPPED
/* clang-format on */

static const struct {
    const char *key;
    void (*set)(struct json_object *object, const char *key, const struct statement *row,
                int column);
} job_columns[] = {
    {"id", row_set_int},           {"name", row_set_text},    {"kind", row_set_text},
    {"state", row_set_text},       {"user", row_set_text},    {"uid", row_set_int},
    {"priority", row_set_int},     {"device", row_set_text},  {"reason", row_set_text},
    {"wait_reason", row_set_text}, {"attempt", row_set_int},  {"submitted", row_set_double},
    {"started", row_set_double},   {"ended", row_set_double}, {"exit_status", row_set_int},
};
enum {
    COLUMN_ID = 0,
    COLUMN_UID = 5,
    COLUMN_BEST = sizeof job_columns / sizeof *job_columns, /* four of them */
    COLUMN_HELD = COLUMN_BEST + 4,
    COLUMN_GROUP,
    COLUMN_SWEEP,
    COLUMN_PINNED,
    COLUMN_RAN,
    COLUMN_STOPPED
};

/* Skips from name to name in the index instead of reading every row. At most 256 names, so that the
 * job fits into a message. */
static const char select_last_metrics[] =
    "WITH RECURSIVE names (name) AS ("
    "  SELECT min(name) FROM metric WHERE job = :job"
    "  UNION ALL"
    "  SELECT (SELECT min(name) FROM metric WHERE job = :job AND name > names.name)"
    "    FROM names WHERE names.name IS NOT NULL)"
    " SELECT name, (SELECT value FROM metric WHERE job = :job AND metric.name = names.name"
    "    ORDER BY step DESC LIMIT 1)"
    "  FROM names WHERE name IS NOT NULL LIMIT 256";

static int last_metrics_read(struct store_connection *connection, int64_t id,
                             struct json_object *job, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_last_metrics, error);

    statement_bind_int(&rows, ":job", id);
    while (statement_next(&rows) > 0)
        row_add_metric(job, statement_text(&rows, 0),
                       statement_is_null(&rows, 1) ? NAN : statement_double(&rows, 1));
    return rows.result;
}

static struct json_object *best_read(const struct statement *row)
{
    struct json_object *best;

    if (statement_is_null(row, COLUMN_BEST))
        return NULL;
    best = json_object_new_object();
    row_set_text(best, "metric", row, COLUMN_BEST);
    row_set_double(best, "value", row, COLUMN_BEST + 1);
    row_set_int(best, "step", row, COLUMN_BEST + 2);
    row_set_double(best, "epoch", row, COLUMN_BEST + 3);
    return best;
}

/* Makes a Job from the current row of JOB_COLUMNS, with the last value of each metric. Members that
 * only the loop knows are null; job_view_add_progress() of methods/ fills them in. */
static int job_read(struct store_connection *connection, const struct statement *row,
                    struct json_object **made, struct error *error)
{
    struct json_object *job = json_object_new_object();
    int result;

    for (int i = 0; i < COLUMN_BEST; i++)
        job_columns[i].set(job, job_columns[i].key, row, i);
    json_set(job, "progress", NULL);
    json_set(job, "queue_position", NULL);
    json_set(job, "expected_start", NULL);
    json_set(job, "metrics", json_object_new_object());
    json_set(job, "nonfinite", NULL);
    json_set(job, "best", best_read(row));
    json_set_bool(job, "held", statement_int(row, COLUMN_HELD) != 0);
    row_set_text(job, "group", row, COLUMN_GROUP);
    row_set_int(job, "sweep", row, COLUMN_SWEEP);
    row_set_text(job, "pinned", row, COLUMN_PINNED);
    row_set_double(job, "ran", row, COLUMN_RAN);
    json_set_bool(job, "stopped", statement_int(row, COLUMN_STOPPED) != 0);
    result = last_metrics_read(connection, statement_int(row, COLUMN_ID), job, error);
    if (result < 0)
        json_object_put(job);
    else
        *made = job;
    return result;
}

static const char select_job[] = "SELECT " JOB_COLUMNS " FROM job WHERE id = :job";

int job_row_find(struct store_connection *connection, int64_t id, struct json_object **job,
                 struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_job, id, error);

    if (row.result < 0)
        return row.result;
    return row.result == 0 ? sweep_point_find(connection, id, job, error)
                           : job_read(connection, &row, job, error);
}

/* ---- columns of one row ---------------------------------------------------------------------- */

static enum job_state state_read(const struct statement *row, int column)
{
    return (enum job_state)statement_choice(row, column, job_state_from_string, JOB_QUEUED);
}

static const char select_owner[] =
    "SELECT uid FROM job WHERE id = :job UNION ALL SELECT uid" SQL_SWEEP_OF_POINT " LIMIT 1";

int job_owner_read(struct store_connection *connection, int64_t id, uid_t *owner,
                   struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_owner, id, error);

    if (row.result > 0)
        *owner = (uid_t)statement_int(&row, 0);
    return row.result;
}

static const char select_exists[] = "SELECT 1 FROM job WHERE id = :job";

int job_row_exists(struct store_connection *connection, int64_t id, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_exists, id, error);

    return row.result;
}

static const char select_state[] = "SELECT state FROM job WHERE id = :job";

int job_state_read(struct store_connection *connection, int64_t id, enum job_state *state,
                   struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_state, id, error);

    if (row.result > 0)
        *state = state_read(&row, 0);
    return row.result;
}

static const char select_spec[] =
    "SELECT spec, (SELECT plan FROM plan WHERE plan.uid = job.uid AND digest = plan_digest)"
    " FROM job WHERE id = :job";

int job_spec_read(struct store_connection *connection, int64_t id, struct json_object **spec,
                  struct json_object **plan, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_spec, id, error);

    *spec = *plan = NULL;
    if (row.result == 0) /* a point of a sweep that has no row yet */
        return sweep_point_read_spec(connection, id, spec, error);
    if (row.result < 0)
        return row.result;
    *spec = row_read_object(&row, 0);
    *plan = row_read_object(&row, 1);
    return 0;
}

static const char select_decision[] = "SELECT decision FROM job WHERE id = :job";

int job_decision_read(struct store_connection *connection, int64_t id,
                      struct json_object **decision, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_decision, id, error);

    *decision = row.result > 0 ? row_read_object(&row, 0) : NULL;
    return row.result < 0 ? row.result : 0;
}

static const char select_attempt[] = "SELECT uid, state, attempt FROM job WHERE id = :job";

int job_attempt_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     enum job_state *state, int64_t *attempt, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_attempt, id, error);

    if (row.result > 0) {
        *uid = (uid_t)statement_int(&row, 0);
        *state = state_read(&row, 1);
        *attempt = statement_int(&row, 2);
    }
    return row.result;
}

static const char select_command[] =
    "SELECT uid, plan_digest FROM job"
    " WHERE id = :job AND kind = 'command' AND plan_digest IS NOT NULL";

int job_command_read(struct store_connection *connection, int64_t id, uid_t *uid,
                     char digest[JOB_DIGEST_SIZE], struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_command, id, error);

    digest[0] = '\0';
    if (row.result > 0) {
        *uid = (uid_t)statement_int(&row, 0);
        statement_copy_text(&row, 1, digest, JOB_DIGEST_SIZE);
    }
    return row.result;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* clang-format off */
#define LIST_WHERE(condition) \
    "SELECT " JOB_COLUMNS " FROM job" \
    " WHERE id < :before AND (:states = '' OR instr(:states, ',' || state || ',')) AND " condition \
    " ORDER BY id DESC"
#define OF_USER "(:uid < 0 OR uid = :uid)"
/* Jobs of one user and one name: uses the index of both columns. */
static const char list_named_of_user[] = LIST_WHERE("name = :name AND uid = :uid");
static const char list_named[] = LIST_WHERE("name = :name AND " OF_USER);
static const char list_of_sweep[] = LIST_WHERE("sweep = :sweep AND " OF_USER);
static const char list_live[] = LIST_WHERE(SQL_LIVE " AND " OF_USER);
static const char list_all[] = LIST_WHERE(OF_USER);
/* clang-format on */

static const char *list_choose(const struct job_list_query *query)
{
    if (query->name)
        return query->uid >= 0 ? list_named_of_user : list_named;
    if (query->sweep)
        return list_of_sweep;
    return query->live_only ? list_live : list_all;
}

int jobs_list_read(struct store_connection *connection, const struct job_list_query *query,
                   bool (*wants)(void *data),
                   void (*take)(void *data, int64_t id, uid_t uid, struct json_object *job),
                   void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, list_choose(query), error);

    statement_bind_int(&rows, ":before", query->before);
    statement_bind_text(&rows, ":states", query->states);
    statement_bind_int(&rows, ":uid", query->uid);
    if (query->name)
        statement_bind_text(&rows, ":name", query->name);
    else if (query->sweep)
        statement_bind_int(&rows, ":sweep", query->sweep);
    while (statement_next(&rows) > 0 && wants(data)) {
        struct json_object *job;
        int result = job_read(connection, &rows, &job, error);

        if (result < 0)
            return result;
        take(data, statement_int(&rows, COLUMN_ID), (uid_t)statement_int(&rows, COLUMN_UID), job);
    }
    return rows.result < 0 ? rows.result : 0;
}

/* ---- for the job table ----------------------------------------------------------------------- */

static const char update_held[] = "UPDATE job SET held = :held WHERE id = :job";

int job_held_store(struct store_connection *connection, int64_t id, bool held, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_held, error);

    statement_bind_int(&statement, ":held", held);
    statement_bind_int(&statement, ":job", id);
    return statement_run(&statement);
}

static const char update_best[] =
    "UPDATE job SET best_metric = :metric, best_value = :value, best_step = :step,"
    "  best_epoch = :epoch"
    " WHERE id = :job";

int job_best_store(struct store_connection *connection, int64_t id, const struct job_best *best,
                   struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_best, error);

    statement_bind_text(&statement, ":metric", best->metric);
    statement_bind_double(&statement, ":value", best->value);
    statement_bind_int(&statement, ":step", best->step);
    statement_bind_double(&statement, ":epoch", best->epoch);
    statement_bind_int(&statement, ":job", id);
    return statement_run(&statement);
}

static const char select_start[] =
    "SELECT spec, plan_digest, CASE WHEN :plan THEN"
    "  (SELECT plan FROM plan WHERE plan.uid = job.uid AND plan.digest = job.plan_digest) END"
    " FROM job WHERE id = :job";

int job_start_read(struct store_connection *connection, int64_t id, bool wants_plan,
                   struct json_object **spec, char digest[JOB_DIGEST_SIZE],
                   struct json_object **plan, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_start, error);
    int result;

    *spec = *plan = NULL;
    statement_bind_int(&row, ":plan", wants_plan);
    statement_bind_int(&row, ":job", id);
    if (statement_next(&row) <= 0)
        return row.result < 0 ? row.result : error_set(error, -ENOENT, "the job's row is missing");
    result = row_parse_object(&row, 0, spec, error);
    if (!statement_is_null(&row, 1))
        statement_copy_text(&row, 1, digest, JOB_DIGEST_SIZE);
    if (result == 0 && !statement_is_null(&row, 2) &&
        row_parse_object(&row, 2, plan, NULL) == -ENOMEM)
        result = error_no_memory(error, "a job"); /* a damaged plan is made anew */
    return result;
}

/* The texts first, in the order of enum job_end_text. */
static const char select_end[] =
    "SELECT name, state, reason, device, exit_status, uid, attempt, spec"
    " FROM job WHERE id = :job";

int job_end_read(struct store_connection *connection, int64_t id, struct job_end *end,
                 struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_end, id, error);

    *end = (struct job_end){0};
    if (row.result <= 0)
        return row.result < 0 ? row.result : error_set(error, -ENOENT, "its row is gone");
    for (int i = 0; i < JOB_END_TEXTS; i++) {
        const char *text = statement_text(&row, i);

        end->texts[i] = strdup(text ? text : "");
        if (!end->texts[i])
            return error_no_memory(error, "the end of job %lld", (long long)id);
    }
    end->state = state_read(&row, JOB_END_STATE);
    end->uid = (uid_t)statement_int(&row, JOB_END_TEXTS);
    end->attempts = statement_int(&row, JOB_END_TEXTS + 1);
    return row_parse_object(&row, JOB_END_TEXTS + 2, &end->spec, error);
}

void job_end_release(struct job_end *end)
{
    for (int i = 0; i < JOB_END_TEXTS; i++)
        free(end->texts[i]);
    json_object_put(end->spec);
}
