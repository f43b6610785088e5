/* metric_rows.h: the rows of table metric. */
#pragma once

#include "daemon/store/store.h"
#include "proto/json.h"

#include <stdbool.h>
#include <stdint.h>

/* Passes the job's rows behind the cursor `after` to `take`, oldest first, at most `limit`. `take`
 * gets a MetricRow of io.traind, which it owns, and the row's cursor. `names` is a JSON array;
 * NULL: all names. Ends early if `take` returns false. */
int metrics_read(struct store_connection *connection, int64_t job, int64_t after, int64_t limit,
                 const char *names,
                 bool (*take)(void *data, int64_t cursor, struct json_object *row), void *data,
                 struct error *error);

/* The first and the last step of a metric between the steps `*first` and `*last`, and the cursor
 * behind the job's last row. 1; 0: there are no such rows. */
int metric_span_read(struct store_connection *connection, int64_t job, const char *name,
                     int64_t *first, int64_t *last, int64_t *cursor, struct error *error);

/* The finite values of some steps. */
struct metric_bucket {
    int64_t step, count; /* the first one's step; how many there are, 0: none */
    double epoch, time;  /* of the first one; epoch NAN: unknown */
    double minimum, maximum, mean;
};
struct metric_buckets {
    struct metric_bucket *buckets; /* zeroed by the caller */
    int64_t first, last;           /* steps, both included */
    uint64_t width;                /* steps of a bucket; the last step's must be there */
    int64_t rows, nonfinite;       /* results: values, and those of them that are not finite */
};
/* Puts the values of a metric between two steps into buckets. */
int metric_buckets_read(struct store_connection *connection, int64_t job, const char *name,
                        struct metric_buckets *buckets, struct error *error);

struct metric_row {
    const char *name;
    int64_t step;
    double epoch, time; /* epoch: NAN if it is unknown */
    double value;       /* NAN: not a number */
};
/* Stores a value. If the job has a value of that name and step already, `replace` says whether the
 * new value replaces it or is ignored. */
int metric_store(struct store_connection *connection, int64_t job, const struct metric_row *metric,
                 bool replace, struct error *error);
/* Deletes the values behind `step`, because the run repeats those steps. */
int metrics_supersede(struct store_connection *connection, int64_t job, int64_t step,
                      struct error *error);
