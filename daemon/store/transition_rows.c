/* transition_rows.c: see transition_rows.h. */
#include "daemon/store/transition_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/statement.h"

static const char select_news[] =
    "SELECT id, to_state, reason FROM transition WHERE job = :job AND id > :last"
    " ORDER BY id LIMIT :limit";

int transitions_read_news(struct store_connection *connection, int64_t job, int limit,
                          int64_t *last, struct json_object *transitions, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_news, error);
    int count = 0;

    statement_bind_int(&rows, ":job", job);
    statement_bind_int(&rows, ":last", *last);
    statement_bind_int(&rows, ":limit", limit + 1);
    while (statement_next(&rows) > 0) {
        struct json_object *transition;

        if (count++ == limit)
            return 1;
        transition = json_object_new_object();
        row_set_text(transition, "state", &rows, 1);
        row_set_text(transition, "reason", &rows, 2);
        json_object_array_add(transitions, transition);
        *last = statement_int(&rows, 0);
    }
    return rows.result;
}

static const char select_last[] = "SELECT max(id) FROM transition WHERE job = :job";

int transition_last_read(struct store_connection *connection, int64_t job, int64_t *last,
                         struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_last, error);

    statement_bind_int(&row, ":job", job);
    if (statement_next(&row) > 0)
        *last = statement_int(&row, 0);
    return row.result < 0 ? row.result : 0;
}

static const char select_latest[] =
    "SELECT * FROM (SELECT time, from_state, to_state, reason, id FROM transition"
    "  WHERE job = :job ORDER BY id DESC LIMIT 500)"
    " ORDER BY id";

int transitions_take(struct statement *rows, struct json_object *transitions)
{
    while (statement_next(rows) > 0) {
        struct json_object *transition = json_object_new_object();

        row_set_double(transition, "time", rows, 0);
        row_set_text(transition, "from", rows, 1);
        row_set_text(transition, "to", rows, 2);
        row_set_text(transition, "reason", rows, 3);
        json_object_array_add(transitions, transition);
    }
    return rows->result;
}

int transitions_read(struct store_connection *connection, int64_t job,
                     struct json_object *transitions, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_latest, error);

    statement_bind_int(&rows, ":job", job);
    return transitions_take(&rows, transitions);
}

static const char insert_transition[] =
    "INSERT INTO transition (job, time, from_state, to_state, reason)"
    " VALUES (:job, :time, :from, :to, :reason)";

int transition_insert(struct store_connection *connection, int64_t job, double time,
                      const char *from, const char *to, const char *reason, struct error *error)
{
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, insert_transition, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_double(&statement, ":time", time);
    statement_bind_text(&statement, ":from", from);
    statement_bind_text(&statement, ":to", to);
    statement_bind_text(&statement, ":reason", reason);
    return statement_run(&statement);
}
