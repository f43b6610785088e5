/* metric_rows.c: see metric_rows.h. */
#include "daemon/store/metric_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/statement.h"

#include <math.h>

static const char select_page[] =
    "SELECT id, name, step, epoch, time, value FROM metric WHERE job = :job AND id > :after"
    "  AND (:names IS NULL OR name IN (SELECT value FROM json_each(:names)))"
    " ORDER BY id LIMIT :limit";

int metrics_read(struct store_connection *connection, int64_t job, int64_t after, int64_t limit,
                 const char *names,
                 bool (*take)(void *data, int64_t cursor, struct json_object *row), void *data,
                 struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_page, error);

    statement_bind_int(&rows, ":job", job);
    statement_bind_int(&rows, ":after", after);
    statement_bind_text(&rows, ":names", names);
    statement_bind_int(&rows, ":limit", limit);
    while (statement_next(&rows) > 0) {
        struct json_object *row = json_object_new_object();

        row_set_text(row, "name", &rows, 1);
        row_set_int(row, "step", &rows, 2);
        row_set_double(row, "epoch", &rows, 3);
        row_set_double(row, "time", &rows, 4);
        row_set_double(row, "value", &rows, 5);
        if (!take(data, statement_int(&rows, 0), row))
            return 0;
    }
    return rows.result;
}

static const char select_span[] =
    "SELECT (SELECT min(step) FROM metric WHERE job = :job AND name = :name AND step >= :first),"
    "       (SELECT max(step) FROM metric WHERE job = :job AND name = :name AND step <= :last),"
    "       (SELECT max(id) FROM metric WHERE job = :job)";

int metric_span_read(struct store_connection *connection, int64_t job, const char *name,
                     int64_t *first, int64_t *last, int64_t *cursor, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_span, error);

    statement_bind_int(&row, ":job", job);
    statement_bind_text(&row, ":name", name);
    statement_bind_int(&row, ":first", *first);
    statement_bind_int(&row, ":last", *last);
    if (statement_next(&row) <= 0)
        return row.result;
    *cursor = statement_is_null(&row, 2) ? 0 : statement_int(&row, 2);
    if (statement_is_null(&row, 0) || statement_is_null(&row, 1))
        return 0;
    *first = statement_int(&row, 0);
    *last = statement_int(&row, 1);
    return *first <= *last;
}

static const char select_values[] =
    "SELECT step, value, epoch, time FROM metric"
    " WHERE job = :job AND name = :name AND step BETWEEN :first AND :last ORDER BY step";

static void bucket_add(struct metric_bucket *bucket, const struct statement *row, double value)
{
    if (bucket->count++ == 0) {
        bucket->step = statement_int(row, 0);
        bucket->epoch = statement_is_null(row, 2) ? NAN : statement_double(row, 2);
        bucket->time = statement_double(row, 3);
        bucket->minimum = bucket->maximum = bucket->mean = value;
        return;
    }
    bucket->minimum = value < bucket->minimum ? value : bucket->minimum;
    bucket->maximum = value > bucket->maximum ? value : bucket->maximum;
    /* a sum could overflow where the mean does not */
    bucket->mean += value / (double)bucket->count - bucket->mean / (double)bucket->count;
}

int metric_buckets_read(struct store_connection *connection, int64_t job, const char *name,
                        struct metric_buckets *buckets, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_values, error);

    statement_bind_int(&rows, ":job", job);
    statement_bind_text(&rows, ":name", name);
    statement_bind_int(&rows, ":first", buckets->first);
    statement_bind_int(&rows, ":last", buckets->last);
    while (statement_next(&rows) > 0) {
        uint64_t steps = (uint64_t)statement_int(&rows, 0) - (uint64_t)buckets->first;

        buckets->rows++;
        if (statement_is_null(&rows, 1))
            buckets->nonfinite++;
        else
            bucket_add(&buckets->buckets[steps / buckets->width], &rows,
                       statement_double(&rows, 1));
    }
    return rows.result;
}

static const char replace_metric[] =
    "INSERT OR REPLACE INTO metric (job, name, step, epoch, time, value)"
    " VALUES (:job, :name, :step, :epoch, :time, :value)";
static const char insert_metric[] =
    "INSERT OR IGNORE INTO metric (job, name, step, epoch, time, value)"
    " VALUES (:job, :name, :step, :epoch, :time, :value)";

int metric_store(struct store_connection *connection, int64_t job, const struct metric_row *metric,
                 bool replace, struct error *error)
{
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, replace ? replace_metric : insert_metric, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_text(&statement, ":name", metric->name);
    statement_bind_int(&statement, ":step", metric->step);
    statement_bind_double(&statement, ":epoch", metric->epoch);
    statement_bind_double(&statement, ":time", metric->time);
    statement_bind_double(&statement, ":value", metric->value);
    return statement_run(&statement);
}

static const char delete_behind[] = "DELETE FROM metric WHERE job = :job AND step > :step";

int metrics_supersede(struct store_connection *connection, int64_t job, int64_t step,
                      struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_behind, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":step", step);
    return statement_run(&statement);
}
