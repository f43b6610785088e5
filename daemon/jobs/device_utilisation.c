/* device_utilisation.c: see device_utilisation.h. The driver reports the part of the time in which
 * anything ran on a GPU. A job that is alone there has this utilisation. If several jobs share the
 * GPU, their known utilisations are scaled so that the sum equals the measured one. If the GPU is
 * never idle, the sum is at least the limit, so no further job joins. Kernels of different
 * processes take turns, so a sum above 1 is the factor by which all of them are slowed down. A job
 * whose step time alone is known measures this factor; if it is greater than the sum, it replaces
 * the sum. Kernels of jobs that share a GPU through a service (sharing.h) run side by side, so such
 * a job takes from the others only a part of its utilisation alone. At first this part is assumed
 * to be a half, so that two jobs of utilisation 1 share a GPU. Then it follows from step times: if
 * the steps of n jobs take s times as long as alone, each job's part is s/n. If they take no longer
 * than alone, the part is 1/(2n), which admits twice as many. */
#include "daemon/jobs/device_utilisation.h"

#include "base/clock.h"
#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/devices/host_probe.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/sharing.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"
#include "scheduler/policy.h"

#include <math.h>

/* Utilisation of each job on a device with 0 slots: only memory limits its jobs. */
static const double unlimited_utilisation = 1.0 / 64;

/* Seconds of a native job beside its steps, in which the GPU is idle. From its start to the end of
 * the first step, 0.24 to 0.51 s were measured on an H200 (docs/internals/cuda-backend.md,
 * "Start"); its end is added. */
static const double start_seconds = 0.5;

/* Seconds after an attempt's start before readings of its GPU count. Until then the job's estimate
 * counts, which is the whole GPU for a command without known runs. Commands take longer to settle,
 * because a native job's memory is planned. Their time begins when they first hold memory of the
 * GPU: importing PyTorch took 14 s on a machine that had just started, with the GPU idle. After
 * `unused_seconds` without any, it does not seem to want the GPU, or the driver does not list its
 * processes. */
static const double settling_seconds = 10, settling_native_seconds = 3, unused_seconds = 60;

/* `weight` of a new reading in the moving average. A GPU that is busier than `saturated` counts as
 * never idle, because the driver's figure is only a sample. */
static const double weight = 0.5, saturated = 0.95;

/* If steps of a service's clients take less than `slowed_down` times as long as alone, it is only
 * known that there is room. `service_share_unknown` is the part of a job that has not been measured
 * there. */
static const double slowed_down = 1.1, service_share_unknown = 0.5;

/* The change of the sum that makes a decision due, and the least utilisation of a job. */
static const double change_that_counts = 0.1, least = 0.01;

static double within(double utilisation)
{
    return utilisation < least ? least : utilisation > 1 ? 1 : utilisation;
}

/* ---- what a job is assumed to take ----------------------------------------------------------- */

/* The declared cores, else those that earlier runs kept busy, else all that the job may use. */
static double utilisation_of_cores(const struct jobs *jobs, const struct job *job)
{
    double all = jobs->daemon->host->threads, cores = job_needs_threads(jobs->daemon, job->needs);

    if (job->kind == JOB_COMMAND && job->needs->cores > 0)
        cores = job->needs->cores;
    else if (job->kind == JOB_COMMAND && job->workload->cores > 0)
        cores = fmin(job->workload->cores, cores);
    return within(cores / all);
}

/* Assumes that the GPU is busy during the steps and idle otherwise. */
static double utilisation_of_plan(const struct job *job, const struct device *device)
{
    enum workload_basis basis;
    double seconds =
        job->workload->steps * workload_speed(job->workload, device, &basis).step_seconds;

    return seconds > 0 ? seconds / (seconds + start_seconds) : 1;
}

static bool is_on_type(const struct attempt *attempt, const struct device *device)
{
    return attempt && attempt->claim.device_count &&
           attempt->claim.devices[0]->type == device->type;
}

/* The utilisation that the job would have alone on the device. */
static double utilisation_alone(const struct job *job, const struct attempt *attempt,
                                const struct device *device)
{
    double learnt = job->workload->utilisation_on[device->type];

    if (is_on_type(attempt, device) && attempt->claim.utilisation > 0)
        return attempt->claim.utilisation;
    if (learnt > 0)
        return within(learnt);
    return job->kind == JOB_NATIVE ? within(utilisation_of_plan(job, device)) : 1;
}

/* Whether it uses a service there, or would be one beside others. */
static bool uses_service(const struct jobs *jobs, const struct job *job,
                         const struct attempt *attempt, const struct device *device)
{
    return is_on_type(attempt, device) ? attempt->claim.shared_by != NULL
                                       : sharing_is_possible(jobs, job, device);
}

double job_utilisation_on(const struct jobs *jobs, const struct job *job,
                          const struct attempt *attempt, const struct device *device)
{
    double share = job->workload->service_share_on[device->type], alone;

    if (device->slots >= 0)
        return device->slots > 0 ? 1.0 / device->slots : unlimited_utilisation;
    if (device->driver->kind.is_host)
        return utilisation_of_cores(jobs, job);
    alone = utilisation_alone(job, attempt, device);
    return uses_service(jobs, job, attempt, device)
               ? within(alone * (share > 0 ? share : service_share_unknown))
               : alone;
}

double device_utilisation_limit(const struct device *device)
{
    return device->driver->kind.is_host && device->slots < 0
               ? 1
               : policy_settings_default().utilisation_limit;
}

/* ---- what was measured ----------------------------------------------------------------------- */

static bool has_settled(const struct attempt *attempt, double now)
{
    const struct device_claim *claim = &attempt->claim;
    double since_start = now - attempt->started;

    if (!(attempt->started > 0) || claim->gone)
        return false;
    if (attempt->job && attempt->job->kind == JOB_NATIVE)
        return since_start >= settling_native_seconds && attempt->report.has_progress;
    return claim->holds_since > 0 ? now - claim->holds_since >= settling_seconds
                                  : since_start >= unused_seconds;
}

/* The sum of utilisations on the device; 0: some of its jobs have not settled yet. */
static double settled_sum(struct daemon *daemon, const struct device *device, double now)
{
    double sum = 0;

    for (size_t i = 0; i < device->claim_count; i++) {
        struct attempt *attempt = device->claims[i]->attempt;

        if (!attempt->job || !has_settled(attempt, now))
            return 0;
        if (!(attempt->claim.utilisation > 0)) /* until now it was estimated at each use */
            attempt->claim.utilisation =
                job_utilisation_on(daemon->jobs, attempt->job, NULL, device);
        sum += attempt->claim.utilisation;
    }
    return sum;
}

/* For jobs that run side by side, the driver's figure says how long any of them was busy. This is
 * not their sum, so it is not used; take_shared_steps() uses their step times instead. */
static bool is_shared_by_service(const struct device *device)
{
    for (size_t i = 0; i < device->claim_count && device->claim_count > 1; i++)
        if (device->claims[i]->shared_by)
            return true;
    return false;
}

/* The factor by which the device's jobs are slowed down, from their step times; 1: they are not. */
static double slowdown_of(const struct device *device)
{
    double most = 1;

    for (size_t i = 0; i < device->claim_count; i++)
        most = fmax(most, device->claims[i]->slowdown);
    return most;
}

static void learn(struct attempt *attempt)
{
    attempt->claim.utilisation_is_measured = true;
    attempt->job->workload->utilisation_on[attempt->claim.devices[0]->type] =
        attempt->claim.utilisation;
}

void device_utilisation_take(struct daemon *daemon, struct device *device, double busy)
{
    double limit = device_utilisation_limit(device);
    double now = clock_now(), sum, wanted;

    if (device->slots >= 0 || !daemon->jobs || !(busy >= 0) || device->claim_count == 0 ||
        is_shared_by_service(device))
        return;
    /* the driver's figure does not tell which part is that of jobs by another way to the GPU */
    sum = device_is_in_use_otherwise(device) ? 0 : settled_sum(daemon, device, now);
    if (!(sum > 0)) {
        device->busy = -1;
        return;
    }
    device->busy = device->busy < 0 ? busy : device->busy + weight * (busy - device->busy);
    wanted = device->busy < saturated || device->claim_count == 1 ? device->busy : fmax(sum, limit);
    if (device->claim_count > 1)
        wanted = fmax(wanted, slowdown_of(device) > 1 ? slowdown_of(device) : 0);
    for (size_t i = 0; i < device->claim_count; i++)
        device->claims[i]->utilisation = within(device->claims[i]->utilisation * wanted / sum);
    if (device->claim_count == 1)
        learn(device->claims[0]->attempt);
    if (fabs(wanted - device->busy_decided) >= change_that_counts) {
        device->busy_decided = wanted;
        jobs_dispatch(daemon->jobs);
    }
}

/* The number of jobs that are training on the device. */
static int count_training(const struct device *device)
{
    int count = 0;

    for (size_t i = 0; i < device->claim_count; i++)
        count += device->claims[i]->attempt->report.has_progress && !device->claims[i]->gone;
    return count;
}

/* Whether all jobs on the device are MPS clients. Any other job takes turns with them, so a
 * slowdown would not tell the clients' share. */
static bool has_clients_alone(const struct device *device)
{
    for (size_t i = 0; i < device->claim_count; i++)
        if (!device->claims[i]->shared_by && !device->claims[i]->gone)
            return false;
    return true;
}

/* A client of the service there. */
static bool take_shared_steps(struct attempt *attempt, double seconds)
{
    const struct device *device = attempt->claim.devices[0];
    struct workload *workload = attempt->job->workload;
    struct workload_speed alone = workload_measured(workload, device->type);
    double *share = &workload->service_share_on[device->type], before = *share, slowdown, found;
    int count = count_training(device);

    if (count < 2)
        return device->claim_count < 2 || isnan(alone.step_seconds);
    if (isnan(alone.step_seconds) || !(alone.step_seconds > 0) || !has_clients_alone(device))
        return false;
    slowdown = seconds / alone.step_seconds;
    found = slowdown < slowed_down ? 1.0 / (2 * count) : fmin(slowdown / count, 1);
    *share = before > 0 ? before + weight * (found - before) : found;
    if (!(fabs(*share - before) < change_that_counts * before))
        jobs_dispatch(attempt->daemon->jobs);
    return false;
}

/* A slowdown that the sum of utilisations already predicts tells nothing new about a step. */
bool device_utilisation_take_steps(struct attempt *attempt, double seconds)
{
    const struct device *device = attempt->claim.devices[0];
    struct workload_speed alone = workload_measured(attempt->job->workload, device->type);
    double sum = 0;

    /* slowed down by jobs whose utilisation is that of another type of device */
    if (device->driver->kind.takes_turns && device_is_in_use_otherwise(device))
        return isnan(alone.step_seconds);
    if (attempt->claim.shared_by)
        return take_shared_steps(attempt, seconds);
    if (!device->driver->kind.takes_turns || device->slots >= 0 || device->claim_count < 2) {
        attempt->claim.slowdown = 1;
        return true;
    }
    if (!isnan(alone.step_seconds) && alone.step_seconds > 0) {
        double slowdown = seconds / alone.step_seconds;

        attempt->claim.slowdown += weight * (slowdown - attempt->claim.slowdown);
    }
    for (size_t i = 0; i < device->claim_count; i++)
        sum += device->claims[i]->utilisation > 0 ? device->claims[i]->utilisation
               : device->claims[i]->attempt->job
                   ? job_utilisation_on(attempt->daemon->jobs, device->claims[i]->attempt->job,
                                        NULL, device)
                   : 0;
    return sum <= 1;
}
