/* plan_rows.c: see plan_rows.h. */
#include "daemon/store/plan_rows.h"

#include "daemon/store/columns.h"

static const char select_plan[] = "SELECT plan FROM plan WHERE uid = :uid AND digest = :digest";

int plan_read(struct store_connection *connection, uid_t uid, const char *digest,
              struct json_object **plan, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_plan, error);
    int result;

    *plan = NULL;
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, uid);
    store_bind_text(statement, 2, digest);
    result = store_statement_next(statement, error);
    if (result > 0)
        *plan = row_read_object(statement, 0);
    return result < 0 ? result : 0;
}
