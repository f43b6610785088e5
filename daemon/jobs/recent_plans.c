/* recent_plans.c: see recent_plans.h. */
#include "daemon/jobs/recent_plans.h"

#include "base/memory.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/work/job_table.h"

#include <stdlib.h>
#include <string.h>

enum { RECENT_PLANS_KEPT = 16 };

struct recent_plans {
    struct recent_plan list[RECENT_PLANS_KEPT];
    size_t next;
};

const struct recent_plan *recent_plans_find(const struct jobs *jobs, const struct job *job,
                                            const char *digest)
{
    for (size_t i = 0; i < RECENT_PLANS_KEPT; i++) {
        const struct recent_plan *recent = &jobs->recent_plans->list[i];

        if (recent->uid == job->uid && strcmp(recent->digest, digest) == 0 &&
            (recent->plan || job->id <= recent->last_job))
            return recent;
    }
    return NULL;
}

void recent_plans_keep(struct jobs *jobs, const struct planning *planning, const char *failure,
                       struct json_object *plan)
{
    struct recent_plans *plans = jobs->recent_plans;
    struct recent_plan *recent = &plans->list[plans->next++ % RECENT_PLANS_KEPT];

    recent->uid = planning->uid;
    recent->last_job = jobs->last_job;
    json_object_put(recent->plan);
    recent->plan = json_object_get(plan);
    snprintf(recent->digest, sizeof recent->digest, "%s", planning->digest);
    snprintf(recent->message, sizeof recent->message, "%s", failure ? failure : "");
}

void recent_plans_start(struct jobs *jobs)
{
    jobs->recent_plans = memory_zero(sizeof *jobs->recent_plans);
}

void recent_plans_free(struct jobs *jobs)
{
    if (!jobs->recent_plans)
        return;
    for (size_t i = 0; i < RECENT_PLANS_KEPT; i++)
        json_object_put(jobs->recent_plans->list[i].plan);
    free(jobs->recent_plans);
}
