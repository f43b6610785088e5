/* plan_rows.h: the rows of table plan. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <sys/types.h>

/* The plan that a job of the user had made; NULL: there is none, or its row is damaged. */
int plan_read(struct store_connection *connection, uid_t uid, const char *digest,
              struct json_object **plan, struct error *error);
/* Stores the plan, JSON, in place of the one that there is. */
int plan_store(struct store_connection *connection, uid_t uid, const char *digest, const char *plan,
               double time, struct error *error);
