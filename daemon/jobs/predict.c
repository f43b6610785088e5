/* predict.c: see predict.h. The job becomes the last one of a snapshot, as if it had just been
 * submitted. The decision is not carried out. */
#include "daemon/jobs/predict.h"

#include "base/clock.h"
#include "daemon/jobs/candidates.h"
#include "daemon/jobs/history.h"
#include "daemon/jobs/job_default.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/snapshot.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <string.h>

struct json_object *jobs_predict(struct daemon *daemon, struct job_prediction *prediction,
                                 struct error *error)
{
    const struct job_submission *submission = prediction->submission;
    struct jobs *jobs = daemon->jobs;
    struct job guest = {.id = jobs->last_job + 1,
                        .uid = submission->uid,
                        .kind = (uint8_t)submission->kind,
                        .priority = submission->priority,
                        .put_first = submission->put_first,
                        .state = JOB_QUEUED,
                        .waits_since = clock_now()};
    struct json_object *decision = NULL;
    int result = -ENOMEM;

    guest.needs = job_needs_take(jobs->needs, submission->needs);
    guest.workload =
        workload_take(jobs->workloads, submission->uid, submission->kind, submission->plan_digest);
    /* what the caller knows counts only if no live job shares the workload: it would
     * change */
    if (guest.workload && guest.workload->references == 1 && prediction->plan)
        workload_set_plan(guest.workload, prediction->plan);
    if (guest.workload && guest.workload->references == 1 && prediction->run_count > 0)
        history_take(jobs, guest.workload, prediction->runs, prediction->run_count);
    if (guest.needs && guest.workload)
        result = jobs_snapshot_decide(jobs, &guest);
    if (result == 0)
        job_default_explain(jobs, &guest, prediction->note, sizeof prediction->note);
    if (result == 0)
        decision = jobs_describe_decision(jobs, jobs->snapshot->policy.job_count - 1);
    else
        error_set(error, result, "no decision could be made: %s", strerror(-result));
    workload_drop(jobs->workloads, guest.workload);
    job_needs_drop(jobs->needs, guest.needs);
    return decision;
}
