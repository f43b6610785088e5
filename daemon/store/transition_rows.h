/* transition_rows.h: the rows of table transition. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdint.h>

/* Adds the job's transitions behind `*last` to the array, `limit` of them at most, and moves
 * `*last` on. 1: there are more. */
int transitions_read_news(struct store_connection *connection, int64_t job, int limit,
                          int64_t *last, struct json_object *transitions, struct error *error);
/* The number of the job's last transition. */
int transition_last_read(struct store_connection *connection, int64_t job, int64_t *last,
                         struct error *error);
/* The latest 500 of the job, in their order: adds a Transition of io.traind for each. */
int transitions_read(struct store_connection *connection, int64_t job,
                     struct json_object *transitions, struct error *error);
/* A new one; `from`: NULL of a job that is new. */
int transition_insert(struct store_connection *connection, int64_t job, double time,
                      const char *from, const char *to, const char *reason, struct error *error);
