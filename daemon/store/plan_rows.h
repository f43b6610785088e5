/* plan_rows.h: the rows of table plan. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <sys/types.h>

/* Reads the plan that was made for a job of the user. NULL: there is none, or its row is
 * damaged. */
int plan_read(struct store_connection *connection, uid_t uid, const char *digest,
              struct json_object **plan, struct error *error);
/* Stores the plan, which is JSON. It replaces the one of the same user and digest. */
int plan_store(struct store_connection *connection, uid_t uid, const char *digest, const char *plan,
               double time, struct error *error);
