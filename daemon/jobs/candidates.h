/* candidates.h: decisions as people read them. */
#pragma once

#include "daemon/jobs/jobs.h"

/* The decision on job `index` of the latest snapshot: {"time", "verdict", "device", "sentence",
 * "candidates": [{"device", "kind", "seconds", "step_seconds", "deviation", "basis", "memory",
 * "headroom", "verdict", "obstacle", "because", "other"}]}; null for what is not known. The verdict
 * is the policy's, or "wait_lost". The caller puts it. */
struct json_object *jobs_describe_decision(const struct jobs *jobs, size_t index);

/* The same for a job that waits, decided now without any effect. NULL: it does not wait. */
struct json_object *jobs_explain(struct jobs *jobs, int64_t id);
