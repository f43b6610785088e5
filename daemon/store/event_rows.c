/* event_rows.c: see event_rows.h. */
#include "daemon/store/event_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

static const char select_profile[] =
    "SELECT attempt, detail FROM event WHERE job = :job AND kind = 'profile'"
    " ORDER BY id DESC LIMIT 1";

int event_profile_read(struct store_connection *connection, int64_t job, int64_t *attempt,
                       struct json_object **profile, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_profile, job, error);

    *profile = NULL;
    if (row.result <= 0)
        return row.result;
    *attempt = statement_int(&row, 0);
    return row_parse_object(&row, 1, profile, error);
}

/* clang-format off */
static const char select_warnings[] =
    "SELECT * FROM (SELECT json_extract(" SQL_JSON("detail") ", '$.message'), id FROM event"
    "  WHERE job = :job AND kind = 'warning' ORDER BY id DESC LIMIT 20)"
    " ORDER BY id";
/* clang-format on */

int event_warnings_read(struct store_connection *connection, int64_t job,
                        struct json_object *warnings, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_warnings, error);

    statement_bind_int(&rows, ":job", job);
    while (statement_next(&rows) > 0)
        if (!statement_is_null(&rows, 0))
            json_object_array_add(warnings, json_object_new_string(statement_text(&rows, 0)));
    return rows.result;
}

static const char insert_event[] = "INSERT INTO event (job, attempt, time, kind, detail)"
                                   " VALUES (:job, :attempt, :time, :kind, :detail)";

int event_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                const char *kind, struct json_object *detail, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_event, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":attempt", attempt);
    statement_bind_double(&statement, ":time", time);
    statement_bind_text(&statement, ":kind", kind);
    statement_bind_text(&statement, ":detail", json_text(detail, NULL));
    return statement_run(&statement);
}

int warning_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                  const char *message, struct error *error)
{
    JSON_AUTO struct json_object *detail = json_object_new_object();

    json_set_string(detail, "message", message);
    return event_store(connection, job, attempt, time, "warning", detail, error);
}
