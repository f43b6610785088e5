/* sweep_store.h: the rows of table sweep, as submission and a restart need them. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "daemon/work/sweep.h"

/* On the writer: reserves ids and inserts the row. Fills in first_job. */
int sweep_insert(struct store_connection *connection, struct sweep *sweep, const char *name,
                 enum job_kind kind, int priority, struct error *error);

/* On a storage thread: passes each sweep that may still create jobs, or has jobs that have not
 * ended, to `take`. `take` owns it if it returns 0; otherwise it returns -ENOMEM. */
int sweeps_read(struct store_connection *connection, int (*take)(void *data, struct sweep *sweep),
                void *data, struct error *error);

/* Stores that `count` more points have become jobs. `*stored` is false if the sweep was cancelled
 * meanwhile. */
int sweep_expanded_store(struct store_connection *connection, const struct sweep *sweep,
                         int64_t count, bool *stored, struct error *error);
/* Stores that the sweep creates no further jobs. `*marked`: whether some were still to come.
 * `*points` is 0 if there is no such sweep. */
int sweep_cancelled_store(struct store_connection *connection, int64_t first_job, double time,
                          bool *marked, int64_t *points, int64_t *expanded, struct error *error);
/* Stores whether further points begin held. `*open`: whether some are still to come. Both results
 * stay unchanged if there is no such sweep. */
int sweep_held_store(struct store_connection *connection, int64_t first_job, bool held,
                     int64_t *expanded, bool *open, struct error *error);

/* Counts the removal of a job that the sweep has already created, and how that job had ended. Runs
 * in the transaction that removes the job: a removed failure must not count as a success. */
int sweep_removal_count(struct store_connection *connection, int64_t job, struct error *error);
/* Deletes the sweep, and the dependencies on it, if it creates no more jobs and none is left. */
int sweep_delete_if_last(struct store_connection *connection, int64_t first_job,
                         struct error *error);
