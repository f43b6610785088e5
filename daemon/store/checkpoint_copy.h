/* checkpoint_copy.h: a checkpoint's content moves from the attempt's folder into checkpoints.db, in
 * chunks with digests.
 *
 * It is copied a slice per transaction, so that nobody waits for a large file. Until all of it is
 * there and has the announced digest its row belongs to the job with the negative number, which no
 * query looks for: what a crash leaves of it is replaced by the next copy, or goes at a start.
 * What is dropped goes as checkpoint_purge.h has it. */
#pragma once

#include "daemon/store/spool_store.h"

/* Begins to copy the file, which it takes over. 1 while there is more of it. */
int checkpoint_copy_begin(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, int file, const struct stat *status,
                          struct error *error);

/* Goes on with the copy that is under way. 1 while there is more of it. */
int checkpoint_copy_go_on(struct store_connection *connection, struct spool_store *request,
                          const struct spool_record *record, struct error *error);

void checkpoint_copy_close(struct checkpoint_copy *copy);
