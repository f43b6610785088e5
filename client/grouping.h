/* grouping.h: groups of jobs by keys of their specifications, and what their metrics are like. */
#pragma once

#include "proto/json.h"

/* `jobs`: an array of replies of Show. Only those that are done count; the others are named. `by`:
 * paths of keys to group by, NULL for those that differ, train.seed and the name aside, without
 * those that follow from others. `metrics`: their names, NULL for those of the test set, else of
 * the validation set. The caller owns the result:
 * {"by": [path], "metrics": [name], "left_out": [id], "groups": [{"key": {path: value},
 * "jobs": [id], "values": {name: {"mean", "deviation", "minimum", "maximum", "count"}}}]}.
 * The deviation is that of a sample, null for one job. */
struct json_object *jobs_compare(struct json_object *jobs, struct json_object *by,
                                 struct json_object *metrics);
