/* forecast.h: when the jobs that wait are expected to start, from a snapshot and its decision.
 *
 * The machine is played on from the decision: who runs ends after its predicted seconds, and
 * whenever somebody ends, the jobs that wait are gone through in the order of their priorities and
 * values, and each takes the devices that finish it soonest among those that have room for it. No
 * job is moved, and none comes. A pure function, as policy_decide() is. */
#pragma once

#include "scheduler/policy.h"

enum { FORECAST_JOBS_MAX = 1000 }; /* that are looked at, the first in that order */

struct forecast_start {
    size_t index;   /* of the job in the snapshot; again for each of those that are `alike` */
    double seconds; /* from now; INFINITY: not known, as nobody knows the length of what is before
                     * it, or it waits for memory that others hold, or for a device */
};

/* Fills at most `limit` of `starts` in the order in which the jobs start, those of which it is not
 * known last; jobs that are POLICY_IMPOSSIBLE have no place in it. Returns their number, or
 * -ENOMEM. */
int forecast_starts(const struct policy_snapshot *snapshot, const struct policy_decision *decision,
                    struct forecast_start *starts, size_t limit);
