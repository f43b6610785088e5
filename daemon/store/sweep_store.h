/* sweep_store.h: the rows of table sweep, as submission and a restart need them. */
#pragma once

#include "daemon/store/store.h"
#include "daemon/types/job_types.h"
#include "daemon/work/sweep.h"

/* On the writer: reserves ids and stores the row; fills in first_job. */
int sweep_insert(struct store_connection *connection, struct sweep *sweep, const char *name,
                 enum job_kind kind, int priority, struct error *error);

/* On a storage thread: hands each sweep that may still make points, or has points that have not
 * ended, to `take`, which takes it over and answers 0 or -ENOMEM. */
int sweeps_read(struct store_connection *connection, int (*take)(void *data, struct sweep *sweep),
                void *data, struct error *error);

/* `count` points more are jobs; not `stored` where the sweep was cancelled meanwhile. */
int sweep_expanded_store(struct store_connection *connection, const struct sweep *sweep,
                         int64_t count, bool *stored, struct error *error);
/* Makes no further points; `marked`: there were some to come. `points`: 0 where there is no such
 * sweep. */
int sweep_cancelled_store(struct store_connection *connection, int64_t first_job, double time,
                          bool *marked, int64_t *points, int64_t *expanded, struct error *error);
/* Further points begin held or not; `open`: there are some to come. Both stay as they are where
 * there is no such sweep. */
int sweep_held_store(struct store_connection *connection, int64_t first_job, bool held,
                     int64_t *expanded, bool *open, struct error *error);

/* Notes how the job, a point that the sweep has come to, had ended: it is removed in the same
 * transaction, and a failure that is removed is no success. */
int sweep_removal_count(struct store_connection *connection, int64_t job, struct error *error);
/* Once it makes no more points and none is left, the sweep goes, and what waited for it. */
int sweep_delete_if_last(struct store_connection *connection, int64_t first_job,
                         struct error *error);
