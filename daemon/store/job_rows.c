/* job_rows.c: rows of the store as the types of io.traind. */
#include "daemon/store/job_rows.h"

#include "daemon/store/sweep_rows.h"

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

int job_owner_read(struct store_connection *connection, int64_t id, uid_t *owner,
                   struct error *error)
{
    sqlite3_stmt *statement = store_statement(
        connection,
        "SELECT uid FROM job WHERE id = ?1 UNION ALL SELECT uid FROM sweep WHERE first_job "
        "= (SELECT max(first_job) FROM sweep WHERE first_job <= ?1) AND ?1 < first_job + "
        "points LIMIT 1",
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
