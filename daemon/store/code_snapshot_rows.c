/* code_snapshot_rows.c: see code_snapshot_rows.h. */
#include "daemon/store/code_snapshot_rows.h"

#include "daemon/store/sql.h"
#include "daemon/store/statement.h"

#include <stdlib.h>

static const char select_uses[] =
    "SELECT DISTINCT uid, snapshot FROM job WHERE snapshot IS NOT NULL"
    " UNION SELECT uid, json_extract(" SQL_JSON(
        "spec") ", '$.snapshot.id') FROM sweep"
                "  WHERE json_extract(" SQL_JSON(
                    "spec") ", '$.snapshot.id') IS NOT NULL"
                            " UNION SELECT uid, json_extract(" SQL_JSON(
                                "spec") ", '$.snapshot.id') FROM schedule"
                                        "  WHERE json_extract(" SQL_JSON(
                                            "spec") ", '$.snapshot.id') IS NOT NULL";

int code_snapshot_uses_read(struct store_connection *connection, struct code_snapshot_use **uses,
                            size_t *count, struct error *error)
{
    AUTO_STATEMENT struct statement rows = statement_open(connection, select_uses, error);
    AUTO_FREE struct code_snapshot_use *list = NULL;
    size_t used = 0, room = 0;

    while (statement_next(&rows) > 0) {
        if (used == room) {
            struct code_snapshot_use *grown;

            room = room ? 2 * room : 64;
            grown = realloc(list, room * sizeof *list);
            if (!grown)
                return error_no_memory(error, "%zu snapshots", room);
            list = grown;
        }
        list[used].uid = (uid_t)statement_int(&rows, 0);
        statement_copy_text(&rows, 1, list[used].id, sizeof list[used].id);
        used++;
    }
    if (rows.result < 0)
        return rows.result;
    if (used)
        qsort(list, used, sizeof *list, code_snapshot_use_compare);
    *uses = TAKE_POINTER(list);
    *count = used;
    return 0;
}

static const char select_snapshot[] = "SELECT uid, snapshot FROM job WHERE id = :job";

int code_snapshot_of_job_read(struct store_connection *connection, int64_t job,
                              struct code_snapshot_use *use, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_of_job(connection, select_snapshot, job, error);

    *use = (struct code_snapshot_use){.uid = 0};
    if (row.result <= 0)
        return row.result;
    use->uid = (uid_t)statement_int(&row, 0);
    statement_copy_text(&row, 1, use->id, sizeof use->id);
    return 0;
}
