/* event_rows.h: the rows of table event. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdint.h>

/* The latest profile that an attempt of the job told, and which attempt; NULL: there is none. */
int event_profile_read(struct store_connection *connection, int64_t job, int64_t *attempt,
                       struct json_object **profile, struct error *error);
/* The job's latest 20 warnings, in their order: adds their sentences to the array. */
int event_warnings_read(struct store_connection *connection, int64_t job,
                        struct json_object *warnings, struct error *error);

/* A new one. `detail` is JSON. */
int event_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                const char *kind, struct json_object *detail, struct error *error);
/* One whose detail is {"message": …}. */
int warning_store(struct store_connection *connection, int64_t job, int64_t attempt, double time,
                  const char *message, struct error *error);
