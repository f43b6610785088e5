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

/* Content of a checkpoint in the database from `offset` on: `limit` bytes at most, `*size` of them.
 * 0: there is no such content. -EUCLEAN: it is damaged, which is seen at the beginning of a chunk.
 */
int checkpoint_piece_read(struct store_connection *connection, int64_t checkpoint, int64_t offset,
                          char *buffer, size_t limit, size_t *size, struct error *error);
