/* metric_rows.h: the rows of table metric. */
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

struct metric_row {
    const char *name;
    int64_t step;
    double epoch, time; /* epoch: NAN where it is not known */
    double value;       /* NAN: not a number */
};
/* A value of the job; where there is one of that name and step, it is replaced or stays. */
int metric_store(struct store_connection *connection, int64_t job, const struct metric_row *metric,
                 bool replace, struct error *error);
/* What was measured beyond the step goes: that part of the run happens again. */
int metrics_supersede(struct store_connection *connection, int64_t job, int64_t step,
                      struct error *error);
