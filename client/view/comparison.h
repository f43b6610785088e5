/* comparison.h: groups jobs by keys of their specifications, and summarises their metrics. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* `jobs`: an array of replies of Show, their metrics complete (job.h). Only jobs that are done
 * count; the result lists the others. `by`: paths of keys to group by, or paths without their first
 * part. NULL: the keys that differ, except train.seed, the name, the environment, and keys that
 * follow from others. `metrics`: their names; NULL: those of the test set, or else of the
 * validation set. The caller owns the result: {"by": [path], "also": [path], "metrics": [name],
 * "left_out": [id], "groups": [{"key": {path: value}, "jobs": [id], "values": {name: {"mean",
 * "deviation", "minimum", "maximum", "count", "nonfinite"}}}]}. `also`: the other keys that differ,
 * except train.seed and the name. The deviation is the sample's; null for one job. `nonfinite`
 * values are in nothing else; the first four are null if all are. Returns NULL with a sentence if
 * no job has such a key or such a metric. */
struct json_object *comparison_new(struct json_object *jobs, struct json_object *by,
                                   struct json_object *metrics, struct error *error);
