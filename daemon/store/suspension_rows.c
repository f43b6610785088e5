/* suspension_rows.c: see suspension_rows.h. */
#include "daemon/store/suspension_rows.h"

#include "daemon/store/statement.h"

#include <string.h>

#define NAME_PREFIX "suspension:"

static const char upsert_cost[] =
    "INSERT OR REPLACE INTO setting (name, value)"
    " VALUES ('" NAME_PREFIX "' || :model, json_object('out', :out, 'back', :back))";

int suspension_cost_store(struct store_connection *connection, const char *model, double out,
                          double back, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, upsert_cost, error);

    statement_bind_text(&statement, ":model", model);
    statement_bind_double(&statement, ":out", out);
    statement_bind_double(&statement, ":back", back);
    return statement_run(&statement);
}

static const char select_costs[] =
    "SELECT substr(name, length('" NAME_PREFIX "') + 1), value ->> 'out', value ->> 'back'"
    " FROM setting WHERE name GLOB '" NAME_PREFIX "*'";

int suspension_costs_read(struct store_connection *connection,
                          void (*take)(void *data, const char *model, double out, double back),
                          void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_costs, error);

    while (statement_next(&rows) > 0)
        take(data, statement_text(&rows, 0), statement_double(&rows, 1),
             statement_double(&rows, 2));
    return rows.result;
}
