/* predict.h: where a job would run that has not been submitted. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "proto/json.h"

/* The decision about such a job, were it submitted now, without any effect: as
 * jobs_describe_decision() has it; the caller owns it. `plan` may be NULL: what is known of its
 * digest counts. NULL with a sentence. */
struct json_object *jobs_predict(struct daemon *daemon, const struct job_submission *submission,
                                 struct json_object *plan, struct error *error);
