/* dependency_rows.h: the rows of table dependency. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/work/job_dependencies.h"

/* On a storage thread: reads the state of the job or the sweep, or -ENOENT. A sweep's state is
 * final as soon as the condition is met or can no longer be met; until then it is `queued`. */
int dependency_state(struct store_connection *connection, int64_t on_job,
                     enum dependency_condition condition, enum job_state *state,
                     struct error *error);

/* On the writer: stores the dependencies of `job`; each must have its on_job. Fills in `state`.
 * -ENOENT with a sentence if a job does not exist; `*missing` is its id. */
int dependencies_insert(struct store_connection *connection, int64_t job,
                        struct dependencies *dependencies, int64_t *missing, struct error *error);

/* Adds a Dependency of io.traind for each dependency of the job. */
int dependencies_read_rows(struct store_connection *connection, int64_t job,
                           struct json_object *dependencies, struct error *error);

/* Passes the dependencies of the queued jobs to `take`, in the order of the jobs' ids. `take`
 * returns 0 or -ENOMEM. */
int dependencies_live_read(struct store_connection *connection,
                           int (*take)(void *data, int64_t job,
                                       const struct dependency *dependency),
                           void *data, struct error *error);

/* Deletes the dependencies on a job that is being removed. They were settled when the job ended. */
int dependencies_on_delete(struct store_connection *connection, int64_t on_job,
                           struct error *error);
