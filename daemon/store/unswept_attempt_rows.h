/* unswept_attempt_rows.h: the rows of table unswept_attempt: ended attempts whose dropped
 * checkpoints' files must still be deleted. */
#pragma once

#include "daemon/store/store.h"

/* Notes the job's first `attempts` attempts, which are to be swept after this transaction. If the
 * daemon ends before it sweeps them, the next start does. */
int unswept_attempts_note(struct store_connection *connection, int64_t job, int64_t attempts,
                          struct error *error);
/* Reads how often the attempt was noted; 0: not at all. */
int unswept_attempt_read(struct store_connection *connection, int64_t job, int64_t attempt,
                         int64_t *notes, struct error *error);
/* Deletes the note of an attempt that was swept after it had been noted `notes` times. If it was
 * noted again since then, the note stays. */
int unswept_attempt_forget(struct store_connection *connection, int64_t job, int64_t attempt,
                           int64_t notes, struct error *error);
/* Passes at most `limit` of them to `take`. */
int unswept_attempts_read(struct store_connection *connection, int64_t limit,
                          void (*take)(void *data, int64_t job, int64_t attempt), void *data,
                          struct error *error);
