/* predict.h: predicts where a job would run if it were submitted now. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "proto/json.h"

/* Makes a decision that includes the job and has no effect. Returns it as jobs_describe_decision()
 * does; the caller owns it. `plan` NULL: uses what is known about work with its digest. On an error
 * returns NULL, with a sentence. */
struct json_object *jobs_predict(struct daemon *daemon, const struct job_submission *submission,
                                 struct json_object *plan, struct error *error);
