/* bench_spec.h: makes the specification of a short job that measures another specification on one
 * device. */
#pragma once

#include "proto/json.h"

struct bench_limits {
    int64_t steps;  /* of a native job */
    double seconds; /* of a command */
};

/* Makes a specification of a range test of a native job: `steps` steps, whose learning rates grow
 * from `low` to `high`. The batches are those of the job; the test set is left out. NULL: no
 * memory. */
struct json_object *lr_find_spec_new(struct json_object *spec, const char *name, int64_t steps,
                                     double low, double high);

/* Makes a specification of the same work on `device` only. A native job trains for some steps with
 * the batch that `plan` chose; it evaluates and keeps nothing. A command (`plan` NULL) runs for
 * some seconds. Neither waits for other jobs, a release or a group, nor runs notifications. The
 * caller owns the result; NULL: no memory. */
struct json_object *bench_spec_new(struct json_object *spec, struct json_object *plan,
                                   const char *name, const char *device,
                                   const struct bench_limits *limits);
