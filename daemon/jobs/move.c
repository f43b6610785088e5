/* move.c: see move.h. A job leaves its device because it is paused, moved or queued again, because
 * a decision takes the device away, or because the device is drained or lost.
 *
 * A running job is asked for a checkpoint (with SIGTERM, or the signal that a command declares) and
 * goes on from it. If it does not write one within its grace period, it is killed and goes on from
 * the checkpoint before. The reason is stored with the attempt before the job is asked, so that
 * after a restart traind knows what follows. A decision chooses where the job goes; a job that is
 * moved is pinned to its device first. */
#include "daemon/jobs/move.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/early_changes.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/planning_turns.h"
#include "daemon/jobs/suspend.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/trial.h"
#include "daemon/jobs/workload.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- pins ------------------------------------------------------------------------------------ */

/* Replaces the job's needs; takes over the reference to `needs`. */
static void change_needs(struct jobs *jobs, struct job *job, struct job_needs *needs)
{
    bool queued = job->class != NULL;

    if (!needs) /* the earlier needs stay */
        return;
    job_classes_remove(jobs->classes, job);
    job_needs_drop(jobs->needs, job->needs);
    job->needs = needs;
    if (queued)
        job_queue_after(jobs, job, 0);
}

void job_pin(struct jobs *jobs, struct job *job, const char *device)
{
    change_needs(jobs, job, job_needs_pinned(jobs->needs, job->needs, device));
}

bool job_avoid(struct jobs *jobs, struct job *job, const struct device *device)
{
    const struct devices *devices = jobs->daemon->devices;
    bool elsewhere = false;

    for (size_t i = 0; i < devices->count; i++)
        elsewhere = elsewhere || (devices->list[i] != device &&
                                  device_health_of_hardware(devices->list[i]) == DEVICE_HEALTHY &&
                                  job_could_run_on(job, devices->list[i]));
    if (elsewhere)
        change_needs(jobs, job, job_needs_avoiding(jobs->needs, job->needs, device->name));
    return elsewhere;
}

void job_forgive(struct jobs *jobs, struct job *job)
{
    change_needs(jobs, job, job_needs_avoiding(jobs->needs, job->needs, NULL));
}

/* ---- when it may ----------------------------------------------------------------------------- */

/* Whether the job, suspended, could go on on the device that a user wishes, if there is a wish. */
static bool goes_on_there(const struct jobs *jobs, const struct job *job,
                          const struct job_change *change)
{
    const struct device *device =
        change->device ? devices_find(jobs->daemon->devices, change->device) : NULL;

    return !device || job_goes_on_on(jobs, job, device);
}

/* Whether the job goes on where it was, without its own help, after it has left its devices. On the
 * CPU it would still hold the memory there, so only a pause is worth it. False: `why` gets a
 * sentence. */
static bool can_be_suspended(const struct jobs *jobs, const struct job *job,
                             const struct job_change *change, char *why, size_t size)
{
    const struct device_claim *claim = &job->attempt->claim;

    if (!goes_on_there(jobs, job, change)) {
        snprintf(why, size, "suspended, it could not go on on %s", change->device);
        return false;
    }
    if (change->preemption != PREEMPTION_PAUSED && claim->device_count > 0 &&
        claim->devices[0]->driver->kind.is_host) {
        snprintf(why, size, "on the CPU a command is only frozen when it is paused");
        return false;
    }
    return job_can_be_suspended(jobs, job, why, size);
}

bool job_can_make_room(const struct jobs *jobs, const struct job *job)
{
    const struct job_change change = {.preemption = PREEMPTION_PRIORITY};
    char why[JOB_REASON_MAX];

    return job_saves_state(job) || can_be_suspended(jobs, job, &change, why, sizeof why);
}

static bool one_leaves(const struct device *device)
{
    for (size_t i = 0; i < device->claim_count; i++)
        if (device->claims[i]->attempt->intent != ENDING_NONE ||
            device->claims[i]->attempt->suspension.state == SUSPENSION_BEGINS)
            return true;
    return false;
}

/* Whether a job gives memory of the device or of its ledger back already. */
static bool one_is_leaving(const struct device *device)
{
    const struct device *ledger = device_ledger(device);
    bool one = one_leaves(device);

    if (!one && device_is_over_limit(ledger)) {
        one = one_leaves(ledger);
        for (const struct device *sharer = ledger->sharers; sharer; sharer = sharer->next_sharer)
            one = one || one_leaves(sharer);
    }
    return one;
}

double job_seconds_to_movable(const struct jobs *jobs, const struct job *job)
{
    const struct attempt *attempt = job->attempt;

    if (!attempt || job->state != JOB_RUNNING || attempt->intent != ENDING_NONE ||
        attempt->claim.gone || attempt->claim.device_count == 0)
        return INFINITY;
    if (!job_can_make_room(jobs, job))
        return attempt->suspension.refused_until > clock_now()
                   ? attempt->suspension.refused_until - clock_now()
                   : INFINITY;
    for (int i = 0; i < attempt->claim.device_count; i++)
        if (device_or_ledger_is_over_limit(attempt->claim.devices[i]))
            return one_is_leaving(attempt->claim.devices[i]) ? INFINITY
                                                             : 0; /* some job has to leave */
    if (trial_is_over(attempt))
        return 0;
    return fmax(attempt->started + jobs->daemon->config.move_after_seconds - clock_now(), 0);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* A transition that changes what is stored but not the state. */
static struct transition *note(struct jobs *jobs, const struct job *job,
                               const struct job_change *change)
{
    struct transition *transition = transition_new(jobs, job);

    transition->done = change->done;
    transition->done_data = change->data;
    return transition;
}

/* Applies a user's wish for a device, or for none in particular. */
static void take_wish(struct jobs *jobs, struct job *job, const struct job_change *change,
                      struct transition *transition)
{
    job_pin(jobs, job, *change->device ? change->device : NULL);
    job->disagreed = false;
    transition->update.changes_pin = true;
    snprintf(transition->update.pinned, sizeof transition->update.pinned, "%s", change->device);
}

/* The wish alone. */
static void store_wish(struct jobs *jobs, struct job *job, const struct job_change *change)
{
    struct transition *transition = transition_new(jobs, job);

    take_wish(jobs, job, change, transition);
    transition_store(transition);
}

/* Whether the job leaves its devices by a suspension. A lost device holds nothing any more. */
static bool leaves_suspended(const struct jobs *jobs, const struct job *job,
                             const struct job_change *change)
{
    char why[JOB_REASON_MAX];

    if (change->preemption == PREEMPTION_DEVICE_LOST || job_saves_state(job) ||
        !goes_on_there(jobs, job, change))
        return false;
    return job->attempt->suspension.state == SUSPENSION_BEGINS ||
           can_be_suspended(jobs, job, change, why, sizeof why);
}

void job_preempt(struct jobs *jobs, struct job *job, const struct job_change *change)
{
    struct attempt *attempt = job->attempt;
    struct transition *transition;
    enum ending ending =
        change->preemption == PREEMPTION_DEVICE_LOST ? ENDING_LOST : ENDING_PREEMPTED;

    if (leaves_suspended(jobs, job, change)) {
        if (change->device)
            store_wish(jobs, job, change);
        job_suspend(jobs, job, change);
        return;
    }
    transition = note(jobs, job, change);

    attempt->preemption = change->preemption;
    transition->update.preemption = change->preemption;
    if (change->device)
        take_wish(jobs, job, change, transition);
    transition_stop(transition, job, ending);
    transition->update.decision = memory_copy_text(change->decision);
    if (job->state != JOB_PREEMPTING) /* else it is leaving already for another reason */
        transition_set_state(transition, job, JOB_PREEMPTING, WAIT_NONE, change->reason);
    snprintf(attempt->stop_reason, sizeof attempt->stop_reason, "%s", change->reason);
    transition_store(transition);
}

/* ---- what may be asked of a job -------------------------------------------------------------- */

static int refuse(const struct job_change *change, int code, struct error *error)
{
    change->done(change->data, code, error);
    return code;
}

/* The job that is to change. NULL: it has ended, and `done` has been told. */
static struct job *find_job(struct jobs *jobs, int64_t id, const struct job_change *change)
{
    struct job *job = job_table_find(jobs->table, id);
    struct error error;

    if (job && !job->ended)
        return job;
    error_set(&error, -ERROR_NO_SUCH_JOB, "job %lld has ended already", (long long)id);
    refuse(change, -ERROR_NO_SUCH_JOB, &error);
    return NULL;
}

/* Whether the change is made later, because it is not known yet what the running job can do. */
static bool waits_until_found(struct jobs *jobs, const struct job *job, early_change carry_out,
                              const struct job_change *change)
{
    return !change->at_once && !job_saves_state(job) &&
           early_change_waits(jobs, job, carry_out, change);
}

/* Whether the running job can leave its devices without losing what it has done. */
static int check_leaves(const struct jobs *jobs, const struct job *job,
                        const struct job_change *change)
{
    char why[JOB_REASON_MAX];
    struct error error;

    if (job_saves_state(job) || change->force ||
        job->attempt->suspension.state == SUSPENSION_BEGINS ||
        can_be_suspended(jobs, job, change, why, sizeof why))
        return 0;
    error_set(&error, -ERROR_UNSUPPORTED,
              "job %lld is a command that does not say that it saves its state (preemptible), and "
              "it cannot be suspended: %s. It would begin from the start; --force does that",
              (long long)job->id, why);
    return refuse(change, -ERROR_UNSUPPORTED, &error);
}

/* Says `what` happens to the running job, and what becomes of what it has done. */
static const char *say_leaving(const struct jobs *jobs, const struct job *job,
                               const struct job_change *change, const char *what,
                               char reason[JOB_REASON_MAX])
{
    char why[JOB_REASON_MAX];

    snprintf(reason, JOB_REASON_MAX, "%s: %s", what,
             job_saves_state(job) ? "it writes its checkpoint first"
             : can_be_suspended(jobs, job, change, why, sizeof why) ? "it is suspended"
                                                                    : "it begins from the start");
    return reason;
}

static bool is_running(const struct job *job)
{
    return job->attempt && !job->attempt->planning && !job_is_suspended(job);
}

/* ---- pause and resume ------------------------------------------------------------------------ */

void jobs_pause(struct daemon *daemon, int64_t id, struct job_change change)
{
    struct jobs *jobs = daemon->jobs;
    struct job *job = find_job(jobs, id, &change);
    struct transition *transition;
    char reason[JOB_REASON_MAX];

    if (!job || waits_until_found(jobs, job, jobs_pause, &change))
        return;
    change.preemption = PREEMPTION_PAUSED;
    if (is_running(job)) {
        if (!change.reason)
            change.reason = say_leaving(jobs, job, &change, "paused", reason);
        if (check_leaves(jobs, job, &change) == 0)
            job_preempt(jobs, job, &change);
        return;
    }
    transition = note(jobs, job, &change);
    if (job->state != JOB_PAUSED) {
        job->retry_at = job_backoff_end(job);
        job_take_from_queues(jobs, job);
        transition_set_state(transition, job, JOB_PAUSED, WAIT_NONE,
                             job_is_suspended(job)     ? "paused: it stays suspended"
                             : job->attempt_number > 0 ? "paused before its next attempt"
                                                       : "paused before it started");
    }
    transition_store(transition);
    jobs_dispatch(jobs);
}

/* Queues the job after `delay` seconds, the rest of a pause between two tries. */
static void queue_again(struct jobs *jobs, struct job *job, const struct job_change *change,
                        double delay, const char *reason)
{
    struct transition *transition = note(jobs, job, change);
    bool planned = job->kind == JOB_COMMAND || job->workload->planned;

    transition_set_state(transition, job, JOB_QUEUED,
                         delay > 0 ? WAIT_BACKOFF
                         : planned ? WAIT_DEVICE_BUSY
                                   : WAIT_PLANNING,
                         reason);
    transition_store(transition);
    job->retry_at = 0;
    job_queue_after(jobs, job, delay);
    jobs_plan(jobs);
    jobs_dispatch(jobs);
}

void jobs_resume(struct daemon *daemon, int64_t id, struct job_change change)
{
    struct jobs *jobs = daemon->jobs;
    struct job *job = find_job(jobs, id, &change);
    struct error error;
    double delay;

    if (!job || waits_until_found(jobs, job, jobs_resume, &change))
        return;
    change.preemption = PREEMPTION_REQUEUED;
    change.reason = "resumed: it is queued again as soon as it has left its device";
    delay = job->retry_at - clock_now();
    if (job->state == JOB_PAUSED && delay > 0) {
        queue_again(jobs, job, &change, delay, "resumed; pauses before its next try");
    } else if (job->state == JOB_PAUSED) {
        queue_again(jobs, job, &change, 0, "resumed; waits for a device");
    } else if (job->state == JOB_PREEMPTING && is_running(job) &&
               job->attempt->preemption == PREEMPTION_PAUSED) {
        job_preempt(jobs, job, &change);
    } else {
        error_set(&error, -EINVAL, "job %lld is not paused but %s", (long long)id,
                  job_state_to_string((enum job_state)job->state));
        refuse(&change, -EINVAL, &error);
    }
}

/* ---- queued again, moved --------------------------------------------------------------------- */

void jobs_requeue(struct daemon *daemon, int64_t id, struct job_change change)
{
    struct jobs *jobs = daemon->jobs;
    struct job *job = find_job(jobs, id, &change);
    char reason[JOB_REASON_MAX];
    struct error error;

    if (!job || waits_until_found(jobs, job, jobs_requeue, &change))
        return;
    change.preemption = PREEMPTION_REQUEUED;
    if (is_running(job))
        change.reason = say_leaving(jobs, job, &change, "queued again on request", reason);
    if (job->state == JOB_PAUSED) {
        queue_again(jobs, job, &change, 0, "queued again on request");
    } else if (is_running(job)) {
        if (check_leaves(jobs, job, &change) == 0)
            job_preempt(jobs, job, &change);
    } else {
        error_set(&error, -EINVAL, "job %lld is queued already", (long long)id);
        refuse(&change, -EINVAL, &error);
    }
}

static int check_health(const struct device *device, struct error *error)
{
    const struct device *bad =
        device->health != DEVICE_HEALTHY ? device : device_ledger(device); /* the GPU itself */

    if (device_health_of_hardware(device) == DEVICE_HEALTHY)
        return 0;
    return error_set(error, -ERROR_UNSUPPORTED, "%s takes no jobs: it is %s%s%s", device->name,
                     device_health_to_string(bad->health), bad->health_reason[0] ? ", " : "",
                     bad->health_reason);
}

/* Whether the job could run on the device if it were alone there. */
static int check_target(const struct job *job, const struct device *device, struct error *error)
{
    double limit = device_memory_most(device);
    uint64_t need = job_memory(job, device);
    char needed[32], most[32];

    if (check_health(device, error) < 0)
        return error->code;
    if (job->needs->devices > 1)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "job %lld uses %d devices at once and cannot be moved", (long long)job->id,
                         job->needs->devices);
    if (!job_could_run_on(job, device))
        return error_set(error, -ERROR_UNSUPPORTED,
                         "job %lld may not run on %s: its specification says "
                         "so (device.allow, deny or force), or nothing of traind runs there",
                         (long long)job->id, device->name);
    if (limit > 0 && (double)need > limit)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "job %lld needs %s of the memory of %s, where all jobs together may hold "
                         "%s",
                         (long long)job->id, text_format_bytes(need, needed, sizeof needed),
                         device->name, text_format_bytes((uint64_t)limit, most, sizeof most));
    return 0;
}

/* Whether a job that can only be suspended can go on on the device. */
static int check_goes_on(const struct jobs *jobs, const struct job *job,
                         const struct device *device, struct error *error)
{
    if (!job->attempt || job->attempt->planning || job_saves_state(job) ||
        job_goes_on_on(jobs, job, device))
        return 0;
    return error_set(error, -ERROR_UNSUPPORTED,
                     "job %lld is a command that does not say that it saves its state "
                     "(preemptible). Suspended, it could go on only on a GPU of the same model, by "
                     "NVIDIA's driver 580 or later, and %s is none. It would begin from the start "
                     "there; --force does that",
                     (long long)job->id, device->name);
}

static bool is_on(const struct job *job, const struct device *device)
{
    for (int i = 0; is_running(job) && i < job->attempt->claim.device_count; i++)
        if (job->attempt->claim.devices[i] == device)
            return true;
    return false;
}

/* Only sets the pin: a running job stays, a waiting job will go there. */
static void pin_alone(struct jobs *jobs, struct job *job, const struct job_change *change)
{
    struct transition *transition = note(jobs, job, change);

    take_wish(jobs, job, change, transition);
    transition_store(transition);
    jobs_dispatch(jobs);
}

/* Ends a suspended job, which cannot go on on the device: it begins from the start there. One that
 * is paused stays so. */
static void end_suspended(struct jobs *jobs, struct job *job, struct job_change *change)
{
    char reason[JOB_REASON_MAX];

    snprintf(reason, sizeof reason, "moves to %s: it begins from the start, as it was suspended",
             change->device);
    change->reason = reason;
    change->preemption = job->state == JOB_PAUSED ? PREEMPTION_PAUSED : PREEMPTION_MOVED;
    job_take_from_queues(jobs, job);
    job->attempt->suspension.state = SUSPENSION_ENDS;
    job_preempt(jobs, job, change);
}

void jobs_move(struct daemon *daemon, int64_t id, struct job_change change)
{
    struct jobs *jobs = daemon->jobs;
    struct job *job = find_job(jobs, id, &change);
    const struct device *device = devices_find(daemon->devices, change.device);
    bool anywhere = strcmp(change.device, "auto") == 0;
    char reason[JOB_REASON_MAX], what[DEVICE_NAME_MAX + 16];
    struct error error;

    if (!job || waits_until_found(jobs, job, jobs_move, &change))
        return;
    if (!device && !anywhere) {
        error_set(&error, -ERROR_DEVICE_LOST, "this machine has no device \"%s\"", change.device);
        refuse(&change, -ERROR_DEVICE_LOST, &error);
        return;
    }
    if (device && (check_target(job, device, &error) < 0 ||
                   (!change.force && check_goes_on(jobs, job, device, &error) < 0))) {
        refuse(&change, error.code, &error);
        return;
    }
    change.device = anywhere ? "" : device->name;
    if (job_is_suspended(job) && !goes_on_there(jobs, job, &change)) {
        end_suspended(jobs, job, &change);
        return;
    }
    if (anywhere || !is_running(job) || is_on(job, device)) {
        pin_alone(jobs, job, &change);
        return;
    }
    change.preemption = PREEMPTION_MOVED;
    if (check_leaves(jobs, job, &change) < 0)
        return;
    snprintf(what, sizeof what, "moves to %s", device->name);
    say_leaving(jobs, job, &change, what, reason);
    change.reason = reason;
    job_preempt(jobs, job, &change);
}

/* ---- devices that are gone ------------------------------------------------------------------- */

static bool one_takes_no_jobs(const struct device_claim *claim)
{
    for (int i = 0; i < claim->device_count; i++)
        if (device_health_of_hardware(claim->devices[i]) != DEVICE_HEALTHY)
            return true;
    return false;
}

/* Makes a job leave a device that was drained before the job was found, or while it was resumed. */
static void leave_drained(struct daemon *daemon, int64_t id, struct job_change change)
{
    struct job *job = job_table_find(daemon->jobs->table, id);
    const struct attempt *attempt = job && !job->ended ? job->attempt : NULL;

    if (!attempt || attempt->intent != ENDING_NONE || attempt->claim.suspended ||
        !one_takes_no_jobs(&attempt->claim) || !job_can_make_room(daemon->jobs, job))
        return;
    job_preempt(daemon->jobs, job, &change);
    jobs_dispatch(daemon->jobs);
}

static void leave(struct daemon *daemon, struct device *device, enum preemption preemption,
                  const char *reason)
{
    for (size_t i = 0; i < device->claim_count; i++) {
        struct attempt *attempt = device->claims[i]->attempt;
        struct job_change change = {.preemption = preemption, .reason = reason};

        if (attempt->job && !attempt->job->ended && attempt->intent == ENDING_NONE &&
            !attempt->claim.suspended &&
            (preemption == PREEMPTION_DEVICE_LOST ||
             !waits_until_found(daemon->jobs, attempt->job, leave_drained, &change)) &&
            (preemption == PREEMPTION_DEVICE_LOST || job_can_make_room(daemon->jobs, attempt->job)))
            job_preempt(daemon->jobs, attempt->job, &change);
    }
}

void jobs_leave_device(struct daemon *daemon, struct device *device, enum preemption preemption,
                       const char *reason)
{
    leave(daemon, device, preemption, reason);
    for (struct device *way = device->sharers; way; way = way->next_sharer)
        if (way->same_hardware)
            leave(daemon, way, preemption, reason);
    jobs_dispatch(daemon->jobs);
}
