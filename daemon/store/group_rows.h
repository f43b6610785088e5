/* group_rows.h: the rows of table job_group: the limits of users' groups. */
#pragma once

#include "daemon/store/store.h"

#include <stdint.h>
#include <sys/types.h>

/* Sets the limit of a user's group; below 0: takes it away. -EDQUOT with a sentence when `maximum`
 * other groups of the user have one. */
int group_limit_store(struct store_connection *connection, uid_t uid, const char *name,
                      int64_t limit, int64_t maximum, struct error *error);

/* Hands each limit to `take`, which answers 0 or -ENOMEM; the name is lent. */
int group_limits_read(struct store_connection *connection,
                      int (*take)(void *data, uid_t uid, const char *name, int64_t limit),
                      void *data, struct error *error);
