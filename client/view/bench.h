/* bench.h: what was measured on each device, which one it speaks for, and how it is shown. */
#pragma once

#include "client/view/display.h"
#include "proto/json.h"

/* What a measured job (a reply to Show) says about `candidate` (type Candidate): an object of the
 * keys that trainctl(1) lists, owned by the caller. `plan` is that of the whole job, NULL for a
 * command; `watts` the device's mean power meanwhile, NAN where it could not be read. */
struct json_object *bench_result_new(struct json_object *candidate, struct json_object *show,
                                     struct json_object *plan, double watts);
/* The result of a candidate that was not measured, for this reason. */
struct json_object *bench_result_skipped(struct json_object *candidate, const char *reason);

/* {"devices": results (a reference is taken), "recommended", "reason"}; the caller owns it. */
struct json_object *bench_report_new(struct json_object *results);
void bench_report_print(struct json_object *report, const struct display *display);
