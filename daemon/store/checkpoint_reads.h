/* checkpoint_reads.h: the rows of tables checkpoint and checkpoint_chunk, as queries need them. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The last `limit` of the job, by step: adds a Checkpoint of io.traind for each. */
int checkpoints_read(struct store_connection *connection, int64_t job, int64_t limit,
                     struct json_object *checkpoints, struct error *error);

struct checkpoint_row {
    int64_t id, attempt, step, bytes;
    uid_t uid;  /* whose job it is of */
    char *path; /* the caller's; of one that stays a file, below the attempt's folder; else NULL */
};
/* The job's best checkpoint, or else its last one; below 0: of any step. 0: there is none. */
int checkpoint_find(struct store_connection *connection, int64_t job, int64_t step,
                    struct checkpoint_row *row, struct error *error);

/* Content of a checkpoint in the database from `offset` on: `limit` bytes at most, `*size`
 * of them. 0: there is no such content. -ERROR_DAMAGED: it is damaged, which is seen at the
 * beginning of a chunk. */
int checkpoint_piece_read(struct store_connection *connection, int64_t checkpoint, int64_t offset,
                          char *buffer, size_t limit, size_t *size, struct error *error);

/* Hands the paths of those of the attempt that stay files to `take`, sorted; it answers 0 or
 * -ENOMEM. A path is lent. */
int checkpoint_paths_read(struct store_connection *connection, int64_t job, int64_t attempt,
                          int (*take)(void *data, const char *path), void *data,
                          struct error *error);

/* What a job's checkpoints hold. The texts are lent. */
struct checkpoint_usage {
    int64_t job, attempts, count, bytes;
    const char *name, *user, *state; /* the job's */
    double ended;                    /* NAN: it has not */
};
/* Hands those of the user (below 0: of everybody) that hold most to `take`, the largest first,
 * `limit` of them at most. `*count` and `*bytes`: of all of them. */
int checkpoint_usage_read(struct store_connection *connection, int64_t uid, int64_t limit,
                          void (*take)(void *data, const struct checkpoint_usage *usage),
                          void *data, int64_t *count, int64_t *bytes, struct error *error);
