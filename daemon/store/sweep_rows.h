/* sweep_rows.h: reads sweeps and their points as types of io.traind. Everything runs on a storage
 * thread; the caller owns what is made. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <sys/types.h>

/* Makes the Job of a point that has no row yet. -ERROR_NO_SUCH_JOB if there is no such point. */
int sweep_point_find(struct store_connection *connection, int64_t id, struct json_object **job,
                     struct error *error);
/* Makes the specification of such a point: the submitted one with the point's values. */
int sweep_point_read_spec(struct store_connection *connection, int64_t id,
                          struct json_object **spec, struct error *error);

/* Reads the Sweep whose first job is `first_job`, with the number of its jobs in each state. `spec`
 * and `axes` may be NULL. -ERROR_NO_SUCH_JOB if there is none. */
int sweep_row_find(struct store_connection *connection, int64_t first_job,
                   struct json_object **sweep, struct json_object **spec, struct json_object **axes,
                   struct error *error);
/* Lists the sweeps whose first job is below `before`, newest first, without the numbers in each
 * state. */
int sweep_rows_list(struct store_connection *connection, int64_t before, int64_t limit,
                    struct json_object *sweeps, struct error *error);
/* Reads the sweep's owner. Returns 1, or 0 if there is no such sweep. */
int sweep_owner_read(struct store_connection *connection, int64_t first_job, uid_t *uid,
                     struct error *error);
