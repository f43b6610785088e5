/* checkpoint_purge.h: checkpoints that are dropped. Their rows leave the job at once; their
 * content, which may be many gigabytes, goes a few MiB per transaction, so that nobody waits for
 * it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;
struct store;
struct store_connection;

/* A member of struct daemon. */
struct checkpoint_purge {
    struct store *store; /* outlives what is under way */
    bool under_way, again, stopped;
};

/* Removes what is dropped, as the writer has time. What a stop leaves, the next start removes. */
void checkpoints_purge(struct checkpoint_purge *state);
void checkpoints_purge_stop(struct checkpoint_purge *state);

/* Within a transaction, after which checkpoints_purge() removes them: drops all of the job's; all
 * but the best one and the last `kept`. */
int checkpoints_drop(struct store_connection *connection, int64_t job, struct error *error);
int checkpoints_thin(struct store_connection *connection, int64_t job, int64_t kept,
                     struct error *error);
