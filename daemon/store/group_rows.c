/* group_rows.c: see group_rows.h. */
#include "daemon/store/group_rows.h"

#include <errno.h>

static const char count_others[] =
    "SELECT count(*) FROM job_group WHERE uid = :uid AND name <> :name";

static int check_limits(struct store_connection *connection, uid_t uid, const char *name,
                        int64_t maximum, struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, count_others, error);
    int result;

    if (!statement)
        return error->code;
    store_bind_int(statement, 1, uid);
    store_bind_text(statement, 2, name);
    result = store_statement_next(statement, error);
    if (result > 0 && sqlite3_column_int64(statement, 0) >= maximum)
        result = error_set(error, -EDQUOT,
                           "at most %lld groups of a user have a limit; take one away (null)",
                           (long long)maximum);
    sqlite3_reset(statement);
    return result < 0 ? result : 0;
}

static const char delete_limit[] = "DELETE FROM job_group WHERE uid = :uid AND name = :name";
static const char replace_limit[] =
    "INSERT OR REPLACE INTO job_group (uid, name, job_limit) VALUES (:uid, :name, :limit)";

int group_limit_store(struct store_connection *connection, uid_t uid, const char *name,
                      int64_t limit, int64_t maximum, struct error *error)
{
    int result = limit < 0 ? 0 : check_limits(connection, uid, name, maximum, error);
    sqlite3_stmt *statement;

    if (result < 0)
        return result;
    statement = store_statement(connection, limit < 0 ? delete_limit : replace_limit, error);
    if (!statement)
        return error->code;
    store_bind_int(statement, 1, uid);
    store_bind_text(statement, 2, name);
    if (limit >= 0)
        store_bind_int(statement, 3, limit);
    return store_statement_run(statement, error);
}
