/* bench_spec.h: from a specification to the short job that measures it on one device. */
#pragma once

#include "proto/json.h"

struct bench_limits {
    int64_t steps;  /* of a native job */
    double seconds; /* of a command */
};

/* A specification of the same work on `device` alone: a native job trains for some steps and
 * evaluates and keeps nothing, with the batch that `plan` chose for the whole; a command (`plan` is
 * NULL) runs for some seconds. Neither waits for other jobs, a release or its group, nor notifies
 * anybody. The caller owns it; NULL: no memory. */
struct json_object *bench_spec_new(struct json_object *spec, struct json_object *plan,
                                   const char *name, const char *device,
                                   const struct bench_limits *limits);
