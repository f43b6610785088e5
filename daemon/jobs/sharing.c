/* sharing.c: see sharing.h. A native job uses the service if another native job of its user is on
 * the device, waits for it or for a plan, or was there a moment ago. A job that is alone on its GPU
 * does not: on an H100, steps of a small model took 3% longer through NVIDIA's service. But a job
 * without the service takes turns with all its clients: such a job took 2.4 s instead of 0.9 s
 * there. */
#include "daemon/jobs/sharing.h"

#include "base/clock.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/sharing_services.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"

bool sharing_is_possible(const struct jobs *jobs, const struct job *job,
                         const struct device *device)
{
    return job->kind == JOB_NATIVE && job->needs->devices == 1 && !job->avoids_sharing &&
           sharing_service_is_offered(jobs->daemon, device, job->uid);
}

void sharing_leave(struct attempt *attempt)
{
    struct device *device = attempt->claim.device_count == 1 ? attempt->claim.devices[0] : NULL;

    sharing_service_part(attempt->daemon, attempt->claim.sharing_service);
    if (!device || !attempt->job || attempt->job->kind != JOB_NATIVE)
        return;
    device->native_left = clock_now();
    device->native_left_uid = attempt->uid;
}

/* Whether the job may come to the GPU once it is planned. */
static bool may_come(const struct jobs *jobs, const struct job *job, const struct device *device)
{
    return job && sharing_is_possible(jobs, job, device) &&
           job_needs_would_allow(job->needs, (enum job_kind)job->kind, device);
}

/* Whether a job of the user that may come to the GPU waits for its plan. Of jobs that are submitted
 * together, the first one is on the GPU before the others are planned. */
static bool expects_company(struct jobs *jobs, uid_t uid, const struct device *device)
{
    size_t count;
    const struct planning *runs = planning_turns_runs(jobs, &count);

    for (size_t i = 0; i < count; i++)
        if (runs[i].job && runs[i].uid == uid &&
            may_come(jobs, job_table_find(jobs->table, runs[i].job), device))
            return true;
    return may_come(jobs, planning_turns_first(jobs, uid), device);
}

/* Whether another native job of the user is on the GPU or may come there. */
static bool has_company(struct jobs *jobs, const struct attempt *attempt)
{
    const struct device *device = attempt->claim.devices[0];
    size_t count;
    struct job_class *const *classes = job_classes_sorted(jobs->classes, &count);

    if (device->native_left_uid == attempt->uid &&
        clock_now() - device->native_left < SHARING_TAKES_SECONDS)
        return true;
    for (size_t i = 0; i < device->claim_count; i++) {
        const struct attempt *other = device->claims[i]->attempt;

        if (other != attempt && other->job && other->job->kind == JOB_NATIVE &&
            other->uid == attempt->uid)
            return true;
    }
    for (size_t i = 0; i < count; i++) {
        const struct job *first = job_queue_first(&classes[i]->waiting);

        if (first && first->uid == attempt->uid && sharing_is_possible(jobs, first, device) &&
            job_could_run_on(first, device))
            return true;
    }
    return expects_company(jobs, attempt->uid, device) ||
           sharing_service_is_running(jobs->daemon, device, attempt->uid);
}

bool sharing_join(struct attempt *attempt, struct json_object *spec, char **folder)
{
    struct daemon *daemon = attempt->daemon;
    struct sharing_order order = {.daemon = daemon,
                                  .device = attempt->claim.devices[0],
                                  .uid = attempt->uid,
                                  .shim_path = daemon->shim_path,
                                  .worker_path = daemon->worker_path,
                                  .tasks_max = attempt->launch.tasks_max,
                                  .oom_score_adjust = attempt->launch.oom_score_adjust};

    if (!sharing_is_possible(daemon->jobs, attempt->job, attempt->claim.devices[0]) ||
        json_get(json_get(spec, "environment"), order.device->driver->sharing->variable) ||
        !has_company(daemon->jobs, attempt))
        return false;
    attempt->claim.sharing_service = sharing_service_join(&order, folder);
    attempt->claim.shared_by =
        attempt->claim.sharing_service ? order.device->driver->sharing : NULL;
    return attempt->claim.shared_by != NULL;
}
