/* forecast.h: predicts from a snapshot and its decision when each waiting job will start.
 *
 * The forecast simulates the machine from the decision on. A running job ends after its predicted
 * seconds. Whenever a job ends, the waiting jobs are tried in the order of their priorities and
 * values. Each takes those devices with room for it that finish it soonest. No job moves and no new
 * job arrives. Like policy_decide(), this is a pure function. */
#pragma once

#include "scheduler/policy.h"

enum { FORECAST_JOBS_MAX = 1000 }; /* the forecast covers this many waiting jobs, the first ones */

struct forecast_start {
    size_t index;   /* of the job in the snapshot; repeated for each job that its `alike` counts */
    double seconds; /* from now; INFINITY: unknown, because a job before it has no known length, or
                     * because it waits for a device or for memory that other programs hold */
};

/* Fills at most `limit` of `starts` in the order in which the jobs start; unknown starts come last.
 * Jobs that are POLICY_IMPOSSIBLE are left out. Returns how many it filled, or -ENOMEM. */
int forecast_starts(const struct policy_snapshot *snapshot, const struct policy_decision *decision,
                    struct forecast_start *starts, size_t limit);
