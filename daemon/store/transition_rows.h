/* transition_rows.h: the rows of table transition. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdint.h>

/* Adds the job's transitions behind `*last` to the array, at most `limit`, and advances `*last`.
 * Returns 1 if there are more. */
int transitions_read_news(struct store_connection *connection, int64_t job, int limit,
                          int64_t *last, struct json_object *transitions, struct error *error);
/* Reads the number of the job's last transition. */
int transition_last_read(struct store_connection *connection, int64_t job, int64_t *last,
                         struct error *error);
/* Adds a Transition of io.traind for each of the job's latest 500 transitions, oldest first. */
int transitions_read(struct store_connection *connection, int64_t job,
                     struct json_object *transitions, struct error *error);
struct statement;
/* Adds a Transition for each row of (time, from_state, to_state, reason, …). Returns the
 * statement's result. */
int transitions_take(struct statement *rows, struct json_object *transitions);
/* Inserts a transition. `from` is NULL for a new job. */
int transition_insert(struct store_connection *connection, int64_t job, double time,
                      const char *from, const char *to, const char *reason, struct error *error);
