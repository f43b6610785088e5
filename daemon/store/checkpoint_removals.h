/* checkpoint_removals.h: finds out which checkpoint files the trainee has removed itself, from the
 * later records of its spool. A file that is missing for that reason is no loss. */
#pragma once

#include "daemon/store/spool_store.h"

/* Whether a later record says that the trainee removed the file. The trainee writes that record
 * before it removes the file, so the record is in the spool by now: in this batch or behind it.
 * Each call reads at most one piece of what follows the batch. REMOVALS_UNREAD: the piece does not
 * name the file, and more may follow; ask again in the next transaction. */
enum removals_answer { REMOVALS_LACK, REMOVALS_HAVE, REMOVALS_UNREAD };
enum removals_answer checkpoint_removals_follow(struct spool_store *request,
                                                const struct spool_record *record,
                                                const char *path);

void checkpoint_removals_free(struct checkpoint_removals *removals); /* NULL is allowed */
