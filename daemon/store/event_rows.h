/* event_rows.h: the rows of table event. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdint.h>

/* Reads the latest profile that an attempt of the job reported, and that attempt's number. NULL:
 * there is none. */
int event_profile_read(struct store_connection *connection, int64_t job, int64_t *attempt,
                       struct json_object **profile, struct error *error);
/* Adds the sentences of the job's latest 20 warnings to the array, oldest first. */
int event_warnings_read(struct store_connection *connection, int64_t job,
                        struct json_object *warnings, struct error *error);

/* Inserts an event. `detail` is JSON. */
int event_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                const char *kind, struct json_object *detail, struct error *error);
/* Inserts an event of kind `warning`, whose detail is {"message": …}. */
int warning_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                  const char *message, struct error *error);
