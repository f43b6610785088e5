/* group_rows.h: the rows of table job_group: the limits of users' groups. */
#pragma once

#include "daemon/store/store.h"

#include <stdint.h>
#include <sys/types.h>

/* Sets the limit of a user's group; a limit below 0 removes it. -EDQUOT with a sentence if
 * `maximum` other groups of the user have a limit. */
int group_limit_store(struct store_connection *connection, uid_t uid, const char *name,
                      int64_t limit, int64_t maximum, struct error *error);

/* Passes each limit to `take`, which returns 0 or -ENOMEM. The name is valid during the call
 * only. */
int group_limits_read(struct store_connection *connection,
                      int (*take)(void *data, uid_t uid, const char *name, int64_t limit),
                      void *data, struct error *error);
