/* recent_plans.h: the results of the latest planning runs: plans whose rows may not be on disk yet,
 * and the reasons of failures. */
#pragma once

#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdint.h>
#include <sys/types.h>

struct job;
struct jobs;
struct planning;

/* One result. A failure holds only for jobs that were submitted before it. */
struct recent_plan {
    uid_t uid;
    char digest[JOB_DIGEST_SIZE];
    struct json_object *plan; /* NULL: the run failed */
    char message[JOB_REASON_MAX];
    int64_t last_job;
};

void recent_plans_start(struct jobs *jobs);
void recent_plans_free(struct jobs *jobs);

/* The result for the job's user and this digest. NULL: none is known, or a failure came before the
 * job. */
const struct recent_plan *recent_plans_find(const struct jobs *jobs, const struct job *job,
                                            const char *digest);
/* Keeps the plan of a run, or with `plan` NULL the reason of its failure. */
void recent_plans_keep(struct jobs *jobs, const struct planning *planning, const char *failure,
                       struct json_object *plan);
