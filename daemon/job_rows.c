/* job_rows.c: rows of the store as the types of io.traind. */
#include "daemon/job_rows.h"

#include "daemon/jobs.h"
#include "daemon/jobs_forecast.h"
#include "daemon/sweep_rows.h"
#include "daemon/work/job_rules.h"

#include <errno.h>
#include <math.h>

void row_set_text(struct json_object *object, const char *key, sqlite3_stmt *row, int column)
{
    json_set_string(object, key, (const char *)sqlite3_column_text(row, column));
}

void row_set_int(struct json_object *object, const char *key, sqlite3_stmt *row, int column)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        json_set(object, key, NULL);
    else
        json_set_int(object, key, sqlite3_column_int64(row, column));
}

void row_set_double(struct json_object *object, const char *key, sqlite3_stmt *row, int column)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        json_set(object, key, NULL);
    else
        json_set_double(object, key, sqlite3_column_double(row, column));
}

struct json_object *row_read_object(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    struct json_object *object = NULL;

    if (text)
        json_parse(text, (size_t)sqlite3_column_bytes(row, column), &object, NULL);
    if (json_object_is_type(object, json_type_object))
        return object;
    json_object_put(object);
    return NULL;
}

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

static void set_count(struct json_object *object, const char *key, int64_t value)
{
    if (value < 0)
        json_set(object, key, NULL);
    else
        json_set_int(object, key, value);
}

/* The row has what it waited for when the kind of the reason changed last. */
static void add_reason(struct daemon *daemon, struct json_object *job)
{
    char sentence[JOB_REASON_MAX];
    enum wait_reason wait_reason =
        jobs_explain_queued(daemon, json_get_int(job, "id", 0), sentence, sizeof sentence);

    if (wait_reason == WAIT_NONE)
        return;
    json_set_string(job, "wait_reason", wait_reason_to_string(wait_reason));
    json_set_string(job, "reason", sentence);
}

static void add_expected_start(struct daemon *daemon, struct json_object *job)
{
    const struct forecast_row *row = jobs_forecast_find(daemon, json_get_int(job, "id", 0));

    if (!row)
        return;
    json_set_int(job, "queue_position", row->position);
    json_set_double(job, "expected_start", row->start);
}

void job_row_add_progress(struct daemon *daemon, struct json_object *job)
{
    struct job_progress progress;
    struct json_object *object;
    int state = job_state_from_string(json_get_string(job, "state", ""));

    if (state == JOB_QUEUED) {
        add_reason(daemon, job);
        add_expected_start(daemon, job);
    }
    if (job_state_is_final(state) || !jobs_progress(daemon, json_get_int(job, "id", 0), &progress))
        return;
    object = json_object_new_object();
    json_set_int(object, "step", progress.step < 0 ? 0 : progress.step);
    set_count(object, "steps", progress.steps);
    json_set_double(object, "epoch", progress.epoch);
    set_count(object, "epochs", progress.epochs);
    json_set_double(object, "loss", progress.loss);
    json_set_double(object, "samples_per_second", progress.samples_per_second);
    json_set_double(object, "seconds_left", progress.seconds_left);
    json_set_double(object, "fraction", progress.fraction);
    json_set(job, "progress", object);
}

void job_row_hide(struct json_object *job)
{
    static const char *const hidden[] = {"reason", "exit_status", "progress", "best",
                                         "group",  "sweep",       "pinned",   "ran"};

    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        json_set(job, hidden[i], NULL);
    json_set_string(job, "name", "");
    json_set(job, "metrics", json_object_new_object());
}
