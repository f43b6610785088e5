/* comparison.h: groups of jobs by keys of their specifications, and what their metrics are like. */
#pragma once

#include "base/error.h"
#include "proto/json.h"

/* `jobs`: an array of replies of Show. Only those that are done count; the others are named. `by`:
 * paths of keys to group by, or what is left of them behind the first part; NULL for those that
 * differ, train.seed, the name and the environment aside, without those that follow from others.
 * `metrics`: their names, NULL for those of the test set, else of the validation set. The caller
 * owns the result:
 * {"by": [path], "also": [path], "metrics": [name], "left_out": [id], "groups": [{"key":
 * {path: value}, "jobs": [id], "values": {name: {"mean", "deviation", "minimum", "maximum",
 * "count"}}}]}.
 * `also`: what else differs, train.seed and the name aside. The deviation is that of a sample, null
 * for one job. NULL with the sentence where no job has such a key, or such a metric. */
struct json_object *comparison_new(struct json_object *jobs, struct json_object *by,
                                   struct json_object *metrics, struct error *error);
