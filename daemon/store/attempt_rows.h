/* attempt_rows.h: the rows of table attempt. */
#pragma once

#include "daemon/store/job_update.h"
#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

/* Adds an Attempt of io.traind for each of the job's latest 200 attempts, oldest first. The limit
 * keeps the reply of a job that is retried for months within one message. */
int attempts_read(struct store_connection *connection, int64_t job, struct json_object *attempts,
                  struct error *error);
/* Passes the decisions that started the job's latest 50 attempts to `take`, oldest first. `take`
 * owns each decision. */
int attempt_decisions_read(struct store_connection *connection, int64_t job,
                           void (*take)(void *data, int64_t number, struct json_object *decision),
                           void *data, struct error *error);
/* Sets `*ended`: whether the attempt has ended. Returns 0 if there is no such attempt, else 1. */
int attempt_ended_read(struct store_connection *connection, int64_t job, int64_t number,
                       bool *ended, struct error *error);

/* Stores the update's attempt_change. */
int attempt_change_store(struct store_connection *connection, const struct job_update *update,
                         struct error *error);
/* Stores the step of the checkpoint from which the attempt resumed. */
int attempt_resumed_store(struct store_connection *connection, int64_t job, int64_t number,
                          int64_t step, struct error *error);
/* Stores the message of the trainee's `error` record. */
int attempt_message_store(struct store_connection *connection, int64_t job, int64_t number,
                          const char *message, struct error *error);
