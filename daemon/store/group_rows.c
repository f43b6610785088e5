/* group_rows.c: see group_rows.h. */
#include "daemon/store/group_rows.h"

#include "daemon/store/statement.h"

#include <errno.h>

static const char count_others[] =
    "SELECT count(*) FROM job_group WHERE uid = :uid AND name <> :name";

static int check_limits(struct store_connection *connection, uid_t uid, const char *name,
                        int64_t maximum, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, count_others, error);

    statement_bind_int(&row, ":uid", uid);
    statement_bind_text(&row, ":name", name);
    if (statement_next(&row) > 0 && statement_int(&row, 0) >= maximum)
        return error_set(error, -EDQUOT,
                         "at most %lld groups of a user have a limit; take one away (null)",
                         (long long)maximum);
    return row.result < 0 ? row.result : 0;
}

static const char delete_limit[] = "DELETE FROM job_group WHERE uid = :uid AND name = :name";

static int limit_delete(struct store_connection *connection, uid_t uid, const char *name,
                        struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_limit, error);

    statement_bind_int(&statement, ":uid", uid);
    statement_bind_text(&statement, ":name", name);
    return statement_run(&statement);
}

static const char replace_limit[] =
    "INSERT OR REPLACE INTO job_group (uid, name, job_limit) VALUES (:uid, :name, :limit)";

int group_limit_store(struct store_connection *connection, uid_t uid, const char *name,
                      int64_t limit, int64_t maximum, struct error *error)
{
    int result;

    if (limit < 0)
        return limit_delete(connection, uid, name, error);
    result = check_limits(connection, uid, name, maximum, error);
    if (result < 0)
        return result;

    AUTO_STATEMENT struct statement statement = statement_open(connection, replace_limit, error);
    statement_bind_int(&statement, ":uid", uid);
    statement_bind_text(&statement, ":name", name);
    statement_bind_int(&statement, ":limit", limit);
    return statement_run(&statement);
}

static const char select_limits[] = "SELECT uid, name, job_limit FROM job_group";

int group_limits_read(struct store_connection *connection,
                      int (*take)(void *data, uid_t uid, const char *name, int64_t limit),
                      void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_limits, error);

    while (statement_next(&rows) > 0)
        if (take(data, (uid_t)statement_int(&rows, 0), statement_text(&rows, 1),
                 statement_int(&rows, 2)) < 0)
            return error_no_memory(error, "the groups' limits");
    return rows.result;
}
