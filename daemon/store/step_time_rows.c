/* step_time_rows.c: see step_time_rows.h. */
#include "daemon/store/step_time_rows.h"

#include "daemon/store/statement.h"

#include <math.h>

static const char upsert_step_time[] =
    "INSERT INTO step_time (uid, step, type, seconds, deviation, steps, predicted, time)"
    " VALUES (:uid, :step, :type, :seconds, :deviation, :steps, :predicted, unixepoch())"
    " ON CONFLICT (uid, step, type) DO UPDATE SET"
    "  seconds = excluded.seconds, deviation = excluded.deviation, steps = excluded.steps,"
    "  predicted = excluded.predicted, time = excluded.time";

static const char select_latest[] =
    "SELECT uid, step, type, seconds, deviation, steps, predicted"
    " FROM (SELECT *, row_number() OVER (PARTITION BY uid ORDER BY time DESC) AS place"
    "  FROM step_time)"
    " WHERE place <= :limit_of_user ORDER BY time DESC LIMIT :limit";

int step_time_store(struct store_connection *connection, const struct step_time_row *row,
                    struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, upsert_step_time, error);

    statement_bind_int(&statement, ":uid", row->uid);
    statement_bind_text(&statement, ":step", row->step);
    statement_bind_text(&statement, ":type", row->type);
    statement_bind_double(&statement, ":seconds", row->seconds);
    statement_bind_double(&statement, ":deviation", row->deviation);
    statement_bind_double(&statement, ":steps", row->steps);
    statement_bind_double(&statement, ":predicted", row->predicted > 0 ? row->predicted : NAN);
    return statement_run(&statement);
}

static void row_read(const struct statement *from, struct step_time_row *row)
{
    *row = (struct step_time_row){
        .uid = (uid_t)statement_int(from, 0),
        .seconds = statement_double(from, 3),
        .deviation = statement_double(from, 4),
        .steps = statement_double(from, 5),
        .predicted = statement_double(from, 6),
    };
    statement_copy_text(from, 1, row->step, sizeof row->step);
    statement_copy_text(from, 2, row->type, sizeof row->type);
}

int step_times_read(struct store_connection *connection, int64_t limit, int64_t limit_of_user,
                    int (*take)(void *data, const struct step_time_row *row), void *data,
                    struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_latest, error);

    statement_bind_int(&rows, ":limit", limit);
    statement_bind_int(&rows, ":limit_of_user", limit_of_user);
    while (statement_next(&rows) > 0) {
        struct step_time_row row;
        int result;

        row_read(&rows, &row);
        result = take(data, &row);
        if (result < 0)
            return error_set(error, result, "not enough memory to load the step times");
    }
    return rows.result;
}
