/* transition_rows.c: see transition_rows.h. */
#include "daemon/store/transition_rows.h"

#include "daemon/store/columns.h"

static const char select_news[] = "SELECT id, to_state, reason FROM transition WHERE job = :job "
                                  "AND id > :last ORDER BY id LIMIT :limit";

int transitions_read_news(struct store_connection *connection, int64_t job, int limit,
                          int64_t *last, struct json_object *transitions, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_news, error);
    int result, count = 0;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    store_bind_int(statement, 2, *last);
    store_bind_int(statement, 3, limit + 1);
    while ((result = store_statement_next(statement, error)) > 0) {
        struct json_object *transition;

        if (count++ == limit)
            return 1;
        transition = json_object_new_object();
        row_set_text(transition, "state", statement, 1);
        row_set_text(transition, "reason", statement, 2);
        json_object_array_add(transitions, transition);
        *last = sqlite3_column_int64(statement, 0);
    }
    return result;
}

static const char select_last[] = "SELECT max(id) FROM transition WHERE job = :job";

int transition_last_read(struct store_connection *connection, int64_t job, int64_t *last,
                         struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_last, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    result = store_statement_next(statement, error);
    if (result > 0)
        *last = sqlite3_column_int64(statement, 0);
    return result < 0 ? result : 0;
}

static const char select_latest[] =
    "SELECT * FROM (SELECT time, from_state, to_state, reason, id FROM transition WHERE job = :job"
    " ORDER BY id DESC LIMIT 500) ORDER BY id";

int transitions_read(struct store_connection *connection, int64_t job,
                     struct json_object *transitions, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_latest, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    while ((result = store_statement_next(statement, error)) > 0) {
        struct json_object *transition = json_object_new_object();

        row_set_double(transition, "time", statement, 0);
        row_set_text(transition, "from", statement, 1);
        row_set_text(transition, "to", statement, 2);
        row_set_text(transition, "reason", statement, 3);
        json_object_array_add(transitions, transition);
    }
    return result;
}
