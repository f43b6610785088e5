/* event_rows.c: see event_rows.h. */
#include "daemon/store/event_rows.h"

static const char select_profile[] = "SELECT attempt, detail FROM event WHERE job = :job AND kind "
                                     "= 'profile' ORDER BY id DESC LIMIT 1";

int event_profile_read(struct store_connection *connection, int64_t job, int64_t *attempt,
                       struct json_object **profile, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_profile, error);
    int result;

    *profile = NULL;
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    result = store_statement_next(statement, error);
    if (result > 0) {
        *attempt = sqlite3_column_int64(statement, 0);
        result = json_parse((const char *)sqlite3_column_text(statement, 1),
                            (size_t)sqlite3_column_bytes(statement, 1), profile, error);
    }
    return result;
}

static const char select_warnings[] = "SELECT * FROM (SELECT json_extract(" STORE_JSON(
    "detail") ", '$.message'), id FROM event WHERE job = :job AND kind = 'warning' ORDER BY id "
              "DESC LIMIT 20) ORDER BY id";

int event_warnings_read(struct store_connection *connection, int64_t job,
                        struct json_object *warnings, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_warnings, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, job);
    while ((result = store_statement_next(statement, error)) > 0)
        if (sqlite3_column_type(statement, 0) == SQLITE_TEXT)
            json_object_array_add(
                warnings, json_object_new_string((const char *)sqlite3_column_text(statement, 0)));
    return result;
}
