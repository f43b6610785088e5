/* job_ability.c: see job_ability.h. */
#include "daemon/jobs/job_ability.h"

#include "daemon/attempts/attempt.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <math.h>

static uint64_t at_most(uint64_t need, uint64_t most)
{
    return need > most ? most : need;
}

/* What the specification of a command says that it needs; 0: nothing. */
static uint64_t memory_declared(const struct job *job, const struct device *device)
{
    uint64_t declared = 0;

    if (job->kind == JOB_COMMAND)
        declared = device->driver->kind.is_host ? job->needs->memory : job->needs->device_memory;
    if (job->kind == JOB_COMMAND && device_uses_host_memory(device))
        declared += job->needs->memory; /* both come out of one memory */
    return declared;
}

/* Bytes that are booked on the device for an attempt that begins there. What earlier runs of a
 * command have taken is a guess, so it never is more than the device has for one job. Each time
 * that a command has run out of memory, it is assumed to need half as much again. A native job,
 * whose plan is no guess, uses smaller batches instead. */
static uint64_t memory_at_start(const struct job *job, const struct device *device)
{
    uint64_t declared = memory_declared(job, device), most = device_memory_alone(device);
    uint64_t need = declared ? declared : workload_memory(job->workload, device);

    if (job->kind != JOB_COMMAND)
        return need;
    if (job->memory_failures > 0)
        need = (uint64_t)fmin((double)need * pow(1.5, job->memory_failures), (double)most);
    return declared > need ? declared : declared ? need : at_most(need, most);
}

/* A suspended attempt gets back what it held. What it declared stays its own, too: it may not have
 * taken all of it yet. What other runs have taken since says nothing of it. */
uint64_t job_memory(const struct job *job, const struct device *device)
{
    uint64_t held = 0, declared;

    if (job_is_suspended(job) && !device->driver->kind.is_host)
        held = at_most(job->attempt->suspension.memory, device_memory_alone(device));
    declared = memory_declared(job, device);
    return held == 0 ? memory_at_start(job, device) : held > declared ? held : declared;
}

bool job_yields(const struct job *job)
{
    const struct attempt_suspension *suspension;

    if (!job_is_suspended(job) || job->attempt->preemption != PREEMPTION_MEMORY)
        return false;
    suspension = &job->attempt->suspension;
    return suspension->device_count > 0 &&
           suspension->memory > memory_at_start(job, suspension->devices[0]);
}

struct workload_speed job_speed(const struct job *job, const struct device *device,
                                enum workload_basis *basis)
{
    if (job->kind == JOB_NATIVE)
        return workload_speed(job->workload, device, basis);
    *basis = job->needs->seconds > 0          ? BASIS_DECLARED
             : !isnan(job->workload->seconds) ? BASIS_LEARNT
                                              : BASIS_UNKNOWN;
    return (struct workload_speed){.step_seconds = NAN};
}

const char *job_obstacle(const struct job *job, const struct device *device)
{
    const struct workload_plan *plan;

    if (job->kind == JOB_COMMAND)
        return NULL;
    if (!device->trains)
        return device->trains_reason[0] ? device->trains_reason : "no job was trained there yet";
    if (!device->driver->kind.has_backend)
        return job->workload->refusal;
    plan = workload_plan_on(job->workload, device);
    if (!plan)
        return "it is not planned for such a device";
    return plan->runs ? NULL : plan->reason;
}

bool job_has_better_way(const struct job *job, const struct device *device)
{
    const struct job_needs *needs = job->needs;

    return device->same_hardware && !needs->force && !needs->pinned &&
           !(needs->prefer && device_matches(device, needs->prefer)) &&
           job_could_run_on(job, device->ledger);
}

bool job_saves_state(const struct job *job)
{
    return job->kind == JOB_NATIVE || (job->details && job->details->preemption.possible);
}

bool job_is_suspended(const struct job *job)
{
    return job->attempt && job->attempt->suspension.state == SUSPENSION_HOLDS;
}

bool job_could_run_on(const struct job *job, const struct device *device)
{
    return job_needs_would_allow(job->needs, (enum job_kind)job->kind, device) &&
           !job_obstacle(job, device);
}
