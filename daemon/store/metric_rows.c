/* metric_rows.c: see metric_rows.h. */
#include "daemon/store/metric_rows.h"

#include "daemon/store/columns.h"

static const char select_page[] =
    "SELECT id, name, step, epoch, time, value FROM metric WHERE job = :job"
    " AND id > :after AND (:names IS NULL OR name IN (SELECT value FROM json_each(:names)))"
    " ORDER BY id LIMIT :limit";

int metrics_read(struct store_connection *connection, int64_t job, int64_t after, int64_t limit,
                 const char *names,
                 bool (*take)(void *data, int64_t cursor, struct json_object *row), void *data,
                 struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_page, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_int(statement, 2, after);
    store_bind_text(statement, 3, names);
    store_bind_int(statement, 4, limit);
    while ((result = store_statement_next(statement, error)) > 0) {
        struct json_object *row = json_object_new_object();

        row_set_text(row, "name", statement, 1);
        row_set_int(row, "step", statement, 2);
        row_set_double(row, "epoch", statement, 3);
        row_set_double(row, "time", statement, 4);
        row_set_double(row, "value", statement, 5);
        if (!take(data, sqlite3_column_int64(statement, 0), row)) {
            sqlite3_reset(statement);
            return 0;
        }
    }
    return result;
}
