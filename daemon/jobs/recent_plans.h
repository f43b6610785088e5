/* recent_plans.h: what the last planning runs gave: plans whose rows may not be on disk yet, and
 * the reasons why there are none. */
#pragma once

#include "daemon/types/job_types.h"
#include "proto/json.h"

#include <stdint.h>
#include <sys/types.h>

struct job;
struct jobs;
struct planning;

/* A failure holds for the jobs that were submitted before. */
struct recent_plan {
    uid_t uid;
    char digest[JOB_DIGEST_SIZE];
    struct json_object *plan; /* NULL: it failed */
    char message[JOB_REASON_MAX];
    int64_t last_job;
};

void recent_plans_start(struct jobs *jobs);
void recent_plans_free(struct jobs *jobs);

/* What one with the digest gave for the job's user; NULL: none is known. */
const struct recent_plan *recent_plans_find(const struct jobs *jobs, const struct job *job,
                                            const char *digest);
/* Keeps a plan, or with NULL why it failed. */
void recent_plans_keep(struct jobs *jobs, const struct planning *planning, const char *failure,
                       struct json_object *plan);
