/* predict.h: predicts where a job would run if it were submitted now. */
#pragma once

#include "daemon/jobs/jobs.h"
#include "daemon/work/command_history.h"
#include "proto/json.h"

struct job_prediction {
    const struct job_submission *submission;
    struct json_object *plan; /* of a native job; NULL: uses what is known about work with its
                               * digest */
    const struct command_history_row *runs; /* earlier runs of a command, by type of device */
    int run_count;
    char note[JOB_REASON_MAX]; /* set: which default applies (job_default_explain()) */
};

/* Makes a decision that includes the job and has no effect. Returns it as jobs_describe_decision()
 * does; the caller owns it. On an error returns NULL, with a sentence. */
struct json_object *jobs_predict(struct daemon *daemon, struct job_prediction *prediction,
                                 struct error *error);
