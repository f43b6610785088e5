/* checkpoint_limits.h: whether a checkpoint more is within the limits of the configuration. */
#pragma once

#include "daemon/store/spool_store.h"

/* Sets `*why` to the reason if the attempt, or the user, may not have one more checkpoint of
 * `bytes`, else to NULL. */
int checkpoint_limits_check(struct store_connection *connection,
                            const struct checkpoint_limits *limits, int64_t job, int64_t attempt,
                            uid_t uid, uint64_t bytes, const char **why, struct error *error);
