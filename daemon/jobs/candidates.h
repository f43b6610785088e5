/* candidates.h: describes decisions as JSON: the verdict and each candidate device. */
#pragma once

#include "daemon/jobs/jobs.h"

/* The decision on job `index` of the latest snapshot: {"time", "verdict", "device", "sentence",
 * "candidates": [{"device", "kind", "seconds", "step_seconds", "deviation", "basis", "memory",
 * "headroom", "verdict", "obstacle", "because", "other"}]}. A value that is not known is null. The
 * verdict is the policy's, or "wait_lost". The caller owns the result. */
struct json_object *jobs_describe_decision(const struct jobs *jobs, size_t index);

/* Describes a decision on a waiting job that is made now and has no effect. NULL: the job does not
 * wait. */
struct json_object *jobs_explain(struct jobs *jobs, int64_t id);
