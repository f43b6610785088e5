/* plan_rows.c: see plan_rows.h. */
#include "daemon/store/plan_rows.h"

#include "daemon/store/columns.h"
#include "daemon/store/statement.h"

static const char select_plan[] = "SELECT plan FROM plan WHERE uid = :uid AND digest = :digest";

int plan_read(struct store_connection *connection, uid_t uid, const char *digest,
              struct json_object **plan, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_plan, error);

    statement_bind_int(&row, ":uid", uid);
    statement_bind_text(&row, ":digest", digest);
    *plan = statement_next(&row) > 0 ? row_read_object(&row, 0) : NULL;
    return row.result < 0 ? row.result : 0;
}

static const char replace_plan[] = "INSERT OR REPLACE INTO plan (uid, digest, plan, time)"
                                   " VALUES (:uid, :digest, :plan, :time)";

int plan_store(struct store_connection *connection, uid_t uid, const char *digest, const char *plan,
               double time, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, replace_plan, error);

    statement_bind_int(&statement, ":uid", uid);
    statement_bind_text(&statement, ":digest", digest);
    statement_bind_text(&statement, ":plan", plan);
    statement_bind_double(&statement, ":time", time);
    return statement_run(&statement);
}
