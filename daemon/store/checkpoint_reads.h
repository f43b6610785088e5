/* checkpoint_reads.h: queries of the tables checkpoint and checkpoint_chunk. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Adds a Checkpoint of io.traind for each of the job's last `limit` checkpoints, in the order of
 * their steps. */
int checkpoints_read(struct store_connection *connection, int64_t job, int64_t limit,
                     struct json_object *checkpoints, struct error *error);

struct checkpoint_row {
    int64_t id, attempt, step, bytes;
    uid_t uid;  /* of the job's owner */
    char *path; /* malloc'd, owned by the caller: a path relative to the attempt's folder; NULL: the
                 * content is in the database */
};
/* Finds the job's checkpoint of `step`; if `step` is below 0, its best one, or else its last one.
 * Returns 1, or 0 if there is none. */
int checkpoint_find(struct store_connection *connection, int64_t job, int64_t step,
                    struct checkpoint_row *row, struct error *error);

/* Sets the error that tells why checkpoint_find() found none: -ENOENT, or that of the query. */
int checkpoint_absence(struct store_connection *connection, int64_t job, int64_t step,
                       struct error *error);

/* Reads content of a checkpoint in the database from `offset` on: at most `limit` bytes, and at
 * most to the end of the chunk. `*size` is how many. Returns 1, or 0 if there is no content at
 * `offset`. Returns -ERROR_DAMAGED if the chunk's digest differs, which is checked only if `offset`
 * is the beginning of a chunk. */
int checkpoint_piece_read(struct store_connection *connection, int64_t checkpoint, int64_t offset,
                          char *buffer, size_t limit, size_t *size, struct error *error);

/* Passes the paths of the attempt's checkpoints that stay files to `take`, sorted. `take` returns 0
 * or -ENOMEM; the path is valid during the call only. */
int checkpoint_paths_read(struct store_connection *connection, int64_t job, int64_t attempt,
                          int (*take)(void *data, const char *path), void *data,
                          struct error *error);

/* The sum of a job's checkpoints. The texts are valid during the call only. */
struct checkpoint_usage {
    int64_t job, attempts, count, bytes;
    const char *name, *user, *state; /* the job's */
    double ended;                    /* NAN: it has not ended */
};
/* Passes the jobs of the user (below 0: of all users) whose checkpoints hold most bytes to `take`,
 * the largest first, at most `limit`. `*count` and `*bytes` are the sums over all such jobs, not
 * only the first `limit`. */
int checkpoint_usage_read(struct store_connection *connection, int64_t uid, int64_t limit,
                          void (*take)(void *data, const struct checkpoint_usage *usage),
                          void *data, int64_t *count, int64_t *bytes, struct error *error);
