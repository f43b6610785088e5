/* dependency_rows.h: the rows of table dependency. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/work/job_dependencies.h"

/* On a storage thread: the state of the job, or -ENOENT. That of a sweep is a final one as soon as
 * the condition is met or cannot be met any more, else `queued`. */
int dependency_state(struct store_connection *connection, int64_t on_job,
                     enum dependency_condition condition, enum job_state *state,
                     struct error *error);

/* On the writer: stores what `job` waits for; on_job is known for all of them. Fills in `state`.
 * -ENOENT with a sentence when a job is missing; `*missing` names it. */
int dependencies_insert(struct store_connection *connection, int64_t job,
                        struct dependencies *dependencies, int64_t *missing, struct error *error);

/* Adds a Dependency of io.traind for each that the job has. */
int dependencies_read_rows(struct store_connection *connection, int64_t job,
                           struct json_object *dependencies, struct error *error);

/* Hands what the queued jobs wait for to `take`, by the jobs' numbers; it answers 0 or -ENOMEM. */
int dependencies_live_read(struct store_connection *connection,
                           int (*take)(void *data, int64_t job,
                                       const struct dependency *dependency),
                           void *data, struct error *error);

/* Nobody waits for it any more: it is removed, and what waited for it was decided when it ended. */
int dependencies_on_delete(struct store_connection *connection, int64_t on_job,
                           struct error *error);
