/* device_state_rows.c: see device_state_rows.h. */
#include "daemon/store/device_state_rows.h"

#include "daemon/store/statement.h"

static const char select_states[] = "SELECT device, health, reason FROM device_state";

int device_states_read(struct store_connection *connection,
                       int (*take)(void *data, const struct device_state_row *row), void *data,
                       struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_states, error);

    while (statement_next(&rows) > 0) {
        struct device_state_row row = {.health = (enum device_health)statement_choice(
                                           &rows, 1, device_health_from_string, DEVICE_DRAINING)};

        statement_copy_text(&rows, 0, row.id, sizeof row.id);
        statement_copy_text(&rows, 2, row.reason, sizeof row.reason);
        if (take(data, &row) < 0)
            return error_no_memory(error, "the devices' states");
    }
    return rows.result;
}

static const char delete_state[] = "DELETE FROM device_state WHERE device = :device";

static int state_delete(struct store_connection *connection, const char *device,
                        struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_state, error);

    statement_bind_text(&statement, ":device", device);
    return statement_run(&statement);
}

static const char replace_state[] =
    "INSERT OR REPLACE INTO device_state (device, health, reason, time, uid)"
    " VALUES (:device, :health, :reason, :time, :uid)";

static int state_replace(struct store_connection *connection, const struct device_state_row *row,
                         double time, uid_t uid, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, replace_state, error);

    statement_bind_text(&statement, ":device", row->id);
    statement_bind_text(&statement, ":health", device_health_to_string(row->health));
    statement_bind_text(&statement, ":reason", row->reason);
    statement_bind_double(&statement, ":time", time);
    statement_bind_int(&statement, ":uid", uid);
    return statement_run(&statement);
}

int device_state_store(struct store_connection *connection, const struct device_state_row *row,
                       double time, uid_t uid, struct error *error)
{
    return row->health == DEVICE_HEALTHY ? state_delete(connection, row->id, error)
                                         : state_replace(connection, row, time, uid, error);
}
