/* checkpoint_clone.h: gives a job the checkpoints of another one. */
#pragma once

#include "daemon/store/store.h"

/* On the writer: replaces the checkpoints of job `to` by copies of the newest and of the best
 * one of job `from`, as if attempt `attempt` of `to` had written them. Both jobs belong to one
 * user. Call checkpoints_purge() after the commit. -ENOENT with a sentence: `from` has none, or
 * the newest is a file beyond DatabaseLimit; nothing changes then. */
int checkpoints_clone(struct store_connection *connection, int64_t from, int64_t to,
                      int64_t attempt, struct error *error);
