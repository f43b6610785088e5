/* device_state_rows.c: see device_state_rows.h. */
#include "daemon/store/device_state_rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

static const char select_states[] = "SELECT device, health, reason FROM device_state";

int device_states_read(struct store_connection *connection,
                       int (*take)(void *data, const struct device_state_row *row), void *data,
                       struct error *error)
{
    sqlite3_stmt *statement = store_statement(connection, select_states, error);
    int result;

    if (!statement)
        return error->code;
    while ((result = store_statement_next(statement, error)) > 0) {
        int health = device_health_from_string((const char *)sqlite3_column_text(statement, 1));
        struct device_state_row row = {.health = health < 0 ? DEVICE_DRAINING
                                                            : (enum device_health)health};

        snprintf(row.id, sizeof row.id, "%s", sqlite3_column_text(statement, 0));
        snprintf(row.reason, sizeof row.reason, "%s", sqlite3_column_text(statement, 2));
        if (take(data, &row) < 0)
            return error_set(error, -ENOMEM, "not enough memory to load the devices' states");
    }
    return result;
}

static const char delete_state[] = "DELETE FROM device_state WHERE device = :device";
static const char replace_state[] =
    "INSERT OR REPLACE INTO device_state (device, health, reason, time, uid) "
    "VALUES (:device, :health, :reason, :time, :uid)";

int device_state_store(struct store_connection *connection, const struct device_state_row *row,
                       double time, uid_t uid, struct error *error)
{
    bool healthy = row->health == DEVICE_HEALTHY;
    sqlite3_stmt *statement =
        store_statement(connection, healthy ? delete_state : replace_state, error);

    if (!statement)
        return error->code;
    store_bind_text(statement, 1, row->id);
    if (!healthy) {
        store_bind_text(statement, 2, device_health_to_string(row->health));
        store_bind_text(statement, 3, row->reason);
        store_bind_double(statement, 4, time);
        store_bind_int(statement, 5, uid);
    }
    return store_statement_run(statement, error);
}
