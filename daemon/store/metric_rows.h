/* metric_rows.h: the rows of table metric, as queries need them. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

/* Hands the job's rows behind the cursor `after` to `take`, oldest first, `limit` of them at most:
 * a MetricRow of io.traind, taken over, and its cursor. `names`: a JSON array, NULL: any. Ends
 * early where `take` says false. */
int metrics_read(struct store_connection *connection, int64_t job, int64_t after, int64_t limit,
                 const char *names,
                 bool (*take)(void *data, int64_t cursor, struct json_object *row), void *data,
                 struct error *error);
