/* schedule_rows.c: see schedule_rows.h. */
#include "daemon/store/schedule_rows.h"

#include "base/memory.h"
#include "daemon/store/statement.h"

#include <math.h>
#include <stdlib.h>

void schedule_row_release(struct schedule_row *row)
{
    free(row->user);
    free(row->name);
    free(row->every);
    free(row->spec);
    free(row->failure);
}

static const char insert_schedule[] =
    "INSERT INTO schedule (uid, user, name, every, spec, submitted, next)"
    " VALUES (:uid, :user, :name, :every, :spec, :submitted, :next)";

int schedule_insert(struct store_connection *connection, struct schedule_row *row,
                    struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, insert_schedule, error);

    statement_bind_int(&statement, ":uid", row->uid);
    statement_bind_text(&statement, ":user", row->user);
    statement_bind_text(&statement, ":name", row->name);
    statement_bind_text(&statement, ":every", row->every);
    statement_bind_text(&statement, ":spec", row->spec);
    statement_bind_double(&statement, ":submitted", row->submitted);
    statement_bind_double(&statement, ":next", row->next);
    if (statement_run(&statement) == 0)
        row->id = statement_row_id(&statement);
    return statement.result;
}

static const char update_schedule[] =
    "UPDATE schedule SET next = :next, last_job = :last_job, skipped = :skipped,"
    " failure = :failure WHERE id = :id";

int schedule_update(struct store_connection *connection, const struct schedule_row *row,
                    struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, update_schedule, error);

    statement_bind_double(&statement, ":next", row->next);
    statement_bind_known(&statement, ":last_job", row->last_job, 0);
    statement_bind_int(&statement, ":skipped", row->skipped);
    statement_bind_text(&statement, ":failure", row->failure);
    statement_bind_int(&statement, ":id", row->id);
    return statement_run(&statement);
}

static const char count_schedules[] = "SELECT count(*) FROM schedule WHERE uid = :uid";

int schedules_count(struct store_connection *connection, uid_t uid, int64_t *count,
                    struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, count_schedules, error);

    statement_bind_int(&row, ":uid", uid);
    if (statement_next(&row) > 0)
        *count = statement_int(&row, 0);
    return row.result < 0 ? row.result : 0;
}

static const char select_schedule[] = "SELECT 1 FROM schedule WHERE id = :id";

int schedule_is_there(struct store_connection *connection, int64_t id, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_schedule, error);

    statement_bind_int(&row, ":id", id);
    return statement_next(&row);
}

static const char delete_schedule[] = "DELETE FROM schedule WHERE id = :id";

int schedule_delete(struct store_connection *connection, int64_t id, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, delete_schedule, error);

    statement_bind_int(&statement, ":id", id);
    return statement_run(&statement);
}

static const char select_schedules[] =
    "SELECT id, uid, user, name, every, spec, submitted, next, last_job, skipped, failure"
    " FROM schedule ORDER BY id";

static char *text_copy(const struct statement *row, int column)
{
    return statement_is_null(row, column) ? NULL : memory_copy_text(statement_text(row, column));
}

int schedules_read(struct store_connection *connection, struct schedule_row **rows, size_t *count,
                   struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_schedules, error);

    while (statement_next(&row) > 0) {
        if (*count % 64 == 0)
            *rows = memory_grow(*rows, (*count + 64) * sizeof **rows);
        (*rows)[(*count)++] = (struct schedule_row){
            .id = statement_int(&row, 0),
            .uid = (uid_t)statement_int(&row, 1),
            .user = text_copy(&row, 2),
            .name = text_copy(&row, 3),
            .every = text_copy(&row, 4),
            .spec = text_copy(&row, 5),
            .submitted = statement_double(&row, 6),
            .next = statement_is_null(&row, 7) ? NAN : statement_double(&row, 7),
            .last_job = statement_int(&row, 8),
            .skipped = statement_int(&row, 9),
            .failure = text_copy(&row, 10),
        };
    }
    return row.result;
}
