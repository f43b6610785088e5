/* attempt_rows.h: the rows of table attempt. */
#pragma once

#include "daemon/store/job_update.h"
#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

/* The latest 200 of the job, in their order: adds an Attempt of io.traind for each. A job that is
 * retried for months must still fit into a message. */
int attempts_read(struct store_connection *connection, int64_t job, struct json_object *attempts,
                  struct error *error);
/* Hands the decisions that started the latest 50, in their order, to `take`,
 * which takes them over. */
int attempt_decisions_read(struct store_connection *connection, int64_t job,
                           void (*take)(void *data, int64_t number, struct json_object *decision),
                           void *data, struct error *error);
/* Whether it has ended. 0: there is no such attempt. */
int attempt_ended_read(struct store_connection *connection, int64_t job, int64_t number,
                       bool *ended, struct error *error);

/* What the update says of the attempt. */
int attempt_change_store(struct store_connection *connection, const struct job_update *update,
                         struct error *error);
/* The step of the checkpoint that it began from. */
int attempt_resumed_store(struct store_connection *connection, int64_t job, int64_t number,
                          int64_t step, struct error *error);
/* What its trainee said of why it fails. */
int attempt_message_store(struct store_connection *connection, int64_t job, int64_t number,
                          const char *message, struct error *error);
