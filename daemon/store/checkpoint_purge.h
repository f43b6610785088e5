/* checkpoint_purge.h: removes dropped checkpoints. Dropping takes a row from its job at once. The
 * content, which may be many gigabytes, is deleted a few MiB per transaction, so that other
 * requests do not wait. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;
struct store;
struct store_connection;

/* A member of struct daemon. */
struct checkpoint_purge {
    struct store *store; /* outlives this struct's requests */
    bool under_way, again, stopped;
};

/* Deletes dropped content while the writer has time. What remains when the daemon stops is deleted
 * after the next start. */
void checkpoints_purge(struct checkpoint_purge *state);
void checkpoints_purge_stop(struct checkpoint_purge *state);

/* Both run within a transaction; call checkpoints_purge() after it. checkpoints_drop() drops all
 * checkpoints of the job, checkpoints_thin() all but the best one and the last `kept`. */
int checkpoints_drop(struct store_connection *connection, int64_t job, struct error *error);
int checkpoints_thin(struct store_connection *connection, int64_t job, int64_t kept,
                     struct error *error);
