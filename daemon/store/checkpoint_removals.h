/* checkpoint_removals.h: which files the trainee has dropped by itself, as its later records say:
 * it may have been faster than we are, and then nothing is lost. */
#pragma once

#include "daemon/store/spool_store.h"

/* Whether a record behind this one says that the trainee removed the file: it says so before it
 * does it, so that the record is in the spool by now, in this batch or in what follows it. What
 * follows is read on from where the last search of the batch ended. REMOVALS_UNREAD: a piece was
 * read that does not say so, and there is more; ask again in the next transaction. */
enum removals_answer { REMOVALS_LACK, REMOVALS_HAVE, REMOVALS_UNREAD };
enum removals_answer checkpoint_removals_follow(struct spool_store *request,
                                                const struct spool_record *record,
                                                const char *path);

void checkpoint_removals_free(struct checkpoint_removals *removals); /* NULL is allowed */
