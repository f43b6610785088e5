/* checkpoint_purge.c: see checkpoint_purge.h. */
#include "daemon/store/checkpoint_purge.h"

#include "base/log.h"
#include "daemon/store/sql.h"
#include "daemon/store/statement.h"
#include "daemon/store/store.h"

#include <stdlib.h>

/* Costs in rows, as store_write_bulk() counts them. One request deletes up to 4 MiB, as much as a
 * slice of a copy writes. SQLite must read a page of content before it can free it. */
enum { PURGE_COST = 1000, MEBIBYTE_COST = 250 };

struct purge {
    struct checkpoint_purge *state;
    bool finished;
};

static const char select_dropped[] = "SELECT id FROM checkpoint WHERE job = 0 LIMIT 1";

/* Finds a checkpoint that was dropped. Returns 1 if there is one. */
static int dropped_find(struct store_connection *connection, int64_t *checkpoint,
                        struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_dropped, error);

    if (statement_next(&row) > 0)
        *checkpoint = statement_int(&row, 0);
    return row.result;
}

static const char select_chunk[] =
    "SELECT id, length(data) FROM checkpoint_chunk WHERE checkpoint = :checkpoint LIMIT 1";

static int chunk_find(struct store_connection *connection, int64_t checkpoint, int64_t *chunk,
                      int64_t *bytes, struct error *error)
{
    AUTO_STATEMENT struct statement row = statement_open(connection, select_chunk, error);

    statement_bind_int(&row, ":checkpoint", checkpoint);
    if (statement_next(&row) > 0) {
        *chunk = statement_int(&row, 0);
        *bytes = statement_int(&row, 1);
    }
    return row.result;
}

static const char delete_chunk[] = "DELETE FROM checkpoint_chunk WHERE id = :id";
static const char delete_checkpoint[] = "DELETE FROM checkpoint WHERE id = :id";

static int row_delete(struct store_connection *connection, const char *sql, int64_t id,
                      struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, sql, error);

    statement_bind_int(&statement, ":id", id);
    return statement_run(&statement);
}

/* Deletes one chunk of the checkpoint, or its row if no chunk is left. Returns the cost, or a
 * negative errno. */
static int piece_remove(struct store_connection *connection, int64_t checkpoint,
                        struct error *error)
{
    int64_t chunk = 0, bytes = 0;
    int result = chunk_find(connection, checkpoint, &chunk, &bytes, error);

    if (result < 0)
        return result;
    result = result > 0 ? row_delete(connection, delete_chunk, chunk, error)
                        : row_delete(connection, delete_checkpoint, checkpoint, error);
    return result < 0 ? result : 1 + (int)(bytes * MEBIBYTE_COST >> 20);
}

static int purge_work(struct store_connection *connection, void *data, struct error *error)
{
    struct purge *purge = data;

    for (int left = PURGE_COST; left > 0;) {
        int64_t checkpoint = 0;
        int result = dropped_find(connection, &checkpoint, error);

        if (result <= 0) {
            purge->finished = true;
            return result;
        }
        result = piece_remove(connection, checkpoint, error);
        if (result < 0)
            return result;
        left -= result;
    }
    return 0;
}

static void on_purged(void *data, int result, const struct error *error)
{
    struct purge *purge = data;
    struct checkpoint_purge *state = purge->state;

    if (result < 0)
        log_warning(
            "cannot delete the content of dropped checkpoints; the next drop tries again: %s",
            error->text);
    state->under_way = result == 0 && !purge->finished;
    state->under_way |= state->again;
    state->again = false;
    if (!state->under_way || state->stopped) {
        free(purge);
        return;
    }
    purge->finished = false;
    store_write_bulk(state->store, PURGE_COST, purge_work, on_purged, purge);
}

void checkpoints_purge(struct checkpoint_purge *state)
{
    struct purge *purge;

    if (state->under_way || state->stopped) {
        state->again = true;
        return;
    }
    purge = malloc(sizeof *purge);
    if (!purge)
        return;
    *purge = (struct purge){.state = state};
    state->under_way = true;
    store_write_bulk(state->store, PURGE_COST, purge_work, on_purged, purge);
}

void checkpoints_purge_stop(struct checkpoint_purge *state)
{
    state->stopped = true;
}

/* ---- dropping -------------------------------------------------------------------------------- */

static const char drop_all[] = SQL_CHECKPOINTS_DROP "job = :job";

int checkpoints_drop(struct store_connection *connection, int64_t job, struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, drop_all, error);

    statement_bind_int(&statement, ":job", job);
    return statement_run(&statement);
}

static const char drop_older[] = SQL_CHECKPOINTS_DROP
    "job = :job AND NOT best AND id NOT IN"
    " (SELECT id FROM checkpoint WHERE job = :job ORDER BY step DESC, id DESC LIMIT :kept)";

int checkpoints_thin(struct store_connection *connection, int64_t job, int64_t kept,
                     struct error *error)
{
    AUTO_STATEMENT struct statement statement = statement_open(connection, drop_older, error);

    statement_bind_int(&statement, ":job", job);
    statement_bind_int(&statement, ":kept", kept);
    return statement_run(&statement);
}
