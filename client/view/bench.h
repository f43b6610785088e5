/* bench.h: the results of `bench`: the measurements of each device, the recommended device, and
 * their display. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

/* Makes the result of a measuring job (`show`, a reply to Show) for `candidate` (type Candidate):
 * an object with the keys that trainctl(1) lists, owned by the caller. `plan`: of the whole job,
 * NULL for a command. `watts`: the device's mean power meanwhile; NAN: not readable. */
struct json_object *bench_result_new(struct json_object *candidate, struct json_object *show,
                                     struct json_object *plan, double watts);
/* Makes the result of a candidate that was not measured, with the reason. */
struct json_object *bench_result_skipped(struct json_object *candidate, const char *reason);

/* {"devices": results (a reference is taken), "recommended", "reason"}; the caller owns it. */
struct json_object *bench_report_new(struct json_object *results);
void bench_report_print(struct json_object *report, const struct display *display);
