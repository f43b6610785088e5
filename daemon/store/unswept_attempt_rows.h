/* unswept_attempt_rows.h: the rows of table unswept_attempt: attempts that have ended and whose
 * files of dropped checkpoints are still to go. */
#pragma once

#include "daemon/store/store.h"

/* Within the transaction after which the job's first `attempts` attempts are to be swept: a stop or
 * a kill before they are leaves that to the next start. */
int unswept_attempts_note(struct store_connection *connection, int64_t job, int64_t attempts,
                          struct error *error);
/* How often it was noted; 0: it is not. */
int unswept_attempt_read(struct store_connection *connection, int64_t job, int64_t attempt,
                         int64_t *notes, struct error *error);
/* It was swept, after it had been noted so often. One that was noted again since then stays. */
int unswept_attempt_forget(struct store_connection *connection, int64_t job, int64_t attempt,
                           int64_t notes, struct error *error);
/* Hands `limit` of them at most to `take`. */
int unswept_attempts_read(struct store_connection *connection, int64_t limit,
                          void (*take)(void *data, int64_t job, int64_t attempt), void *data,
                          struct error *error);
