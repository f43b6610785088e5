/* sweep_rows.h: sweeps and their points as the types of io.traind. Everything runs on a storage
 * thread; what is made belongs to the caller. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

/* The sweep of the job ?1, which is no row yet; of a cancelled sweep, which never became one. What
 * a sweep has come to and is no row was removed: it is no job. To be asked for once `job` lacks ?1.
 */
#define SWEEP_OF_POINT_TO_COME                                                                   \
    "FROM sweep WHERE first_job = (SELECT max(first_job) FROM sweep WHERE first_job <= ?1) AND " \
    "?1 >= first_job + expanded AND ?1 < first_job + points"

/* The Job of a point that is no row yet. -ESRCH when there is no such point. */
int sweep_point_find(struct store_connection *connection, int64_t id, struct json_object **job,
                     struct error *error);
/* The specification of such a point, as it was submitted, with the point's values. */
int sweep_point_read_spec(struct store_connection *connection, int64_t id,
                          struct json_object **spec, struct error *error);

/* The Sweep whose first job is `first_job`, with the number of its jobs in each state; `spec` and
 * `axes` may be NULL. -ESRCH when there is none. */
int sweep_row_find(struct store_connection *connection, int64_t first_job,
                   struct json_object **sweep, struct json_object **spec, struct json_object **axes,
                   struct error *error);
/* Sweeps with a first job below `before`, newest first, without the numbers of their states. */
int sweep_rows_list(struct store_connection *connection, int64_t before, int64_t limit,
                    struct json_object *sweeps, struct error *error);
