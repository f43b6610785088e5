/* sweep_rows.h: sweeps and their points as the types of io.traind. Everything runs on a storage
 * thread; what is made belongs to the caller. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <sys/types.h>

/* The Job of a point that is no row yet. -ERROR_NO_SUCH_JOB when there is no such point. */
int sweep_point_find(struct store_connection *connection, int64_t id, struct json_object **job,
                     struct error *error);
/* The specification of such a point, as it was submitted, with the point's values. */
int sweep_point_read_spec(struct store_connection *connection, int64_t id,
                          struct json_object **spec, struct error *error);

/* The Sweep whose first job is `first_job`, with the number of its jobs in each state; `spec` and
 * `axes` may be NULL. -ERROR_NO_SUCH_JOB when there is none. */
int sweep_row_find(struct store_connection *connection, int64_t first_job,
                   struct json_object **sweep, struct json_object **spec, struct json_object **axes,
                   struct error *error);
/* Sweeps with a first job below `before`, newest first, without the numbers of their states. */
int sweep_rows_list(struct store_connection *connection, int64_t before, int64_t limit,
                    struct json_object *sweeps, struct error *error);
/* Whose the sweep is. 0: there is no such sweep. */
int sweep_owner_read(struct store_connection *connection, int64_t first_job, uid_t *uid,
                     struct error *error);
