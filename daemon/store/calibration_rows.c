/* calibration_rows.c: see calibration_rows.h. */
#include "daemon/store/calibration_rows.h"

#include "daemon/store/statement.h"

#include <stdio.h>

static const char upsert_calibration[] =
    "INSERT INTO calibration (device, threads, describes, json, time)"
    " VALUES (:device, :threads, :describes, :json, unixepoch())"
    " ON CONFLICT (device, threads) DO UPDATE SET"
    "  describes = excluded.describes, json = excluded.json, time = excluded.time";

int calibration_store(struct store_connection *connection, const char *device,
                      struct json_object *calibration, struct error *error)
{
    AUTO_STATEMENT struct statement statement =
        statement_open(connection, upsert_calibration, error);
    char describes[1024];

    snprintf(describes, sizeof describes, "%s; %s; %s", json_get_string(calibration, "model", ""),
             json_get_string(calibration, "features", ""),
             json_get_string(calibration, "versions", ""));
    statement_bind_text(&statement, ":device", device);
    statement_bind_int(&statement, ":threads", json_get_int(calibration, "threads", 0));
    statement_bind_text(&statement, ":describes", describes);
    statement_bind_text(&statement, ":json", json_text(calibration, NULL));
    return statement_run(&statement);
}

static const char select_calibrations[] =
    "SELECT device, threads, json FROM calibration ORDER BY time";

int calibrations_read(struct store_connection *connection,
                      void (*take)(void *data, const char *device, int threads, const char *json),
                      void *data, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_calibrations, error);

    while (statement_next(&rows) > 0)
        take(data, statement_text(&rows, 0), (int)statement_int(&rows, 1),
             statement_text(&rows, 2));
    return rows.result;
}
