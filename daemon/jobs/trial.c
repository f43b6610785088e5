/* trial.c: see trial.h. A prediction that rests on a calibration, or on nothing, may have an error
 * that is larger than the difference between two devices. The policy assumes that an unmeasured
 * type of device is faster than predicted by some deviations (policy.h, `optimism`). So it places a
 * job there if that type might be the fastest.
 *
 * Once TRIAL_STEPS steps are timed on a type on which this work had never been measured, the
 * measured time replaces the prediction and a decision is made at once. The job may then be moved
 * before MoveAfter, to another type that might be faster, or back. The policy weighs the cost of
 * the move, so a short job stays. Each type is tried once for each piece of work, so the trials
 * end. */
#include "daemon/jobs/trial.h"

#include "base/log.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/device_utilisation.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

enum { TRIAL_STEPS = 30 };

void trial_observe_steps(struct attempt *attempt, double seconds, double steps)
{
    struct job *job = attempt->job;
    double before = attempt->report.steps_timed;
    int type;

    if (!job || job->ended || job->kind != JOB_NATIVE || attempt->number == 0 ||
        attempt->claim.device_count != 1 || !(seconds > 0) || !(steps > 0))
        return;
    type = attempt->claim.devices[0]->type;
    if (before == 0)
        attempt->report.tries_out = !workload_was_timed(job->workload, type);
    if (device_utilisation_take_steps(attempt, seconds))
        workload_observe(job->workload, type, seconds, steps);
    else
        workload_observe_shared(job->workload, type, seconds);
    attempt->report.steps_timed = before + steps;
    if (before >= TRIAL_STEPS || attempt->report.steps_timed < TRIAL_STEPS)
        return;
    log_debug("job %lld: a step on %s takes %.3g s", (long long)job->id,
              attempt->claim.devices[0]->name, seconds);
    jobs_dispatch(attempt->daemon->jobs);
}

bool trial_is_over(const struct attempt *attempt)
{
    return attempt->report.tries_out && attempt->report.steps_timed >= TRIAL_STEPS;
}
