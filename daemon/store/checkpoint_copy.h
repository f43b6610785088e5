/* checkpoint_copy.h: copies a checkpoint from the attempt's folder into checkpoints.db, in chunks
 * with digests.
 *
 * Each transaction copies one slice, so that other requests do not wait for a large file. While a
 * copy is unfinished, its row has the negative id of the job, which no query looks for. The row
 * becomes the job's once all bytes are there and have the announced digest. A copy that a crash
 * interrupted is replaced by the next copy or removed when the daemon starts. checkpoint_purge.h
 * removes dropped content. */
#pragma once

#include "daemon/store/spool_store.h"

/* Begins to copy `file`, and owns the descriptor from now on. Returns 1 while bytes remain to be
 * copied. */
int checkpoint_copy_begin(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, int file, const struct stat *status,
                          struct error *error);

/* Continues the copy that is under way. Returns 1 while bytes remain to be copied. */
int checkpoint_copy_go_on(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, struct error *error);

void checkpoint_copy_close(struct checkpoint_copy *copy);
