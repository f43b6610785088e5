/* checkpoint_purge.c: see checkpoint_purge.h. */
#include "daemon/store/checkpoint_purge.h"

#include "base/log.h"
#include "daemon/store/store.h"

#include <stdlib.h>

/* What one request takes, in rows, as store_write_bulk() counts: 4 MiB, as much as a slice of a
 * copy. A page of content must be read to be given back. */
enum { PURGE_COST = 1000, MEBIBYTE_COST = 250 };

struct purge {
    struct checkpoint_purge *state;
    bool finished;
};

/* Runs `sql`, whose one parameter is `id`. 1 with a row. */
static int statement_next(struct store_connection *connection, const char *sql, int64_t id,
                          sqlite3_stmt **statement, struct error *error)
{
    *statement = store_statement(connection, sql, error);
    if (!*statement)
        return error->code;
    store_bind_int(*statement, 1, id);
    return store_statement_next(*statement, error);
}

/* One chunk of the checkpoint, or its row when none is left. What that cost, or negative errno. */
static int piece_remove(struct store_connection *connection, int64_t checkpoint,
                        struct error *error)
{
    sqlite3_stmt *chunk, *removal;
    int result = statement_next(
        connection, "SELECT id, length(data) FROM checkpoint_chunk WHERE checkpoint = ? LIMIT 1",
        checkpoint, &chunk, error);
    int cost = 1;

    if (result < 0)
        return result;
    if (result > 0) {
        int64_t id = sqlite3_column_int64(chunk, 0);

        cost += (int)(sqlite3_column_int64(chunk, 1) * MEBIBYTE_COST >> 20);
        result = statement_next(connection, "DELETE FROM checkpoint_chunk WHERE id = ?", id,
                                &removal, error);
    } else {
        result = statement_next(connection, "DELETE FROM checkpoint WHERE id = ?", checkpoint,
                                &removal, error);
    }
    return result < 0 ? result : cost;
}

static int purge_work(struct store_connection *connection, void *data, struct error *error)
{
    struct purge *purge = data;

    for (int left = PURGE_COST; left > 0;) {
        sqlite3_stmt *dropped;
        int result = statement_next(connection, "SELECT id FROM checkpoint WHERE job = ?1 LIMIT 1",
                                    0, &dropped, error);

        if (result <= 0) {
            purge->finished = true;
            return result;
        }
        result = piece_remove(connection, sqlite3_column_int64(dropped, 0), error);
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
        log_warning("content of dropped checkpoints stays until more are dropped: %s", error->text);
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
