/* end.c: see end.h. */
#include "daemon/jobs/end.h"

#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/checkpoint_sweep.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/details.h"
#include "daemon/jobs/device_faults.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/early_changes.h"
#include "daemon/jobs/graph.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_logs.h"
#include "daemon/jobs/job_needs.h"
#include "daemon/jobs/job_remove.h"
#include "daemon/jobs/job_users.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/move.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/searches.h"
#include "daemon/jobs/sharing.h"
#include "daemon/jobs/suspend.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/spool_store.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"
#include "proto/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE_PAUSE_SECONDS = 60, LAUNCH_FAILURES_MAX = 12 };

void job_attempt_gone(struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;

    sharing_leave(attempt);
    jobs_unbook(jobs, attempt);
    job_users_charge(jobs, attempt);
    jobs_dispatch(jobs);
}

struct attempt_end job_describe_end(const struct attempt *attempt, const struct job *job)
{
    const struct config *config = &attempt->daemon->config;
    const struct job_details *details = job->details;
    const char *message = NULL;
    char halved[PLAN_CHOICES_MAX];
    struct attempt_end end = {
        .kind = (enum job_kind)job->kind,
        .intent = attempt->intent,
        .recorded = attempt->exit != NULL,
        .exit_status = -1,
        .error_recorded = attempt->report.error_recorded,
        .preemption = attempt->preemption,
        .disagrees_with = attempt->report.disagrees_with[0] ? attempt->report.disagrees_with : NULL,
        .device = attempt->claim.device_count ? attempt->claim.devices[0]->name : DEVICE_HOST,
        .seconds = attempt_run_seconds(attempt, attempt->ended),
        .time_limit = attempt->time_limit,
        .out_of_memory = attempt->report.out_of_memory,
        .fault = attempt->report.fault,
        .fault_confirmed = device_fault_is_confirmed(attempt),
        .shared_by = attempt->claim.shared_by ? attempt->claim.shared_by->title : NULL,
        .batches_divide = workload_halve_batches(job->workload, halved),
        .memory_failures = job->memory_failures,
        .retries = job->retries,
        .retry_limit = job->kind == JOB_NATIVE ? (int)config->retry_limit : 0,
        .backoff_seconds = config->retry_backoff_seconds,
    };

    if (details && details->retry_limit >= 0)
        end.retry_limit = details->retry_limit;
    if (details && details->backoff_seconds >= 0)
        end.backoff_seconds = details->backoff_seconds;
    if (attempt->exit) {
        message = json_get_string(attempt->exit, "message", NULL);
        end.executed = message == NULL;
        end.exit_status = (int)json_get_int(attempt->exit, "exit_status", -1);
        end.signal = (int)json_get_int(attempt->exit, "signal", 0);
        end.out_of_memory |= json_get_bool(attempt->exit, "out_of_memory", false);
    }
    end.message = message ? message : attempt->report.message;
    end.not_restored = attempt->suspension.broken;
    end.out_of_memory |= attempt->intent == ENDING_OUT_OF_MEMORY; /* over_memory.c */
    if (end.not_restored || (attempt->intent == ENDING_OUT_OF_MEMORY && attempt->stop_reason[0]))
        end.message = attempt->stop_reason;
    /* an earlier daemon stopped it, which had no other reason to */
    if (end.intent == ENDING_NONE && attempt->exit &&
        json_get_bool(attempt->exit, "stopped", false) && end.time_limit > 0 &&
        end.seconds >= end.time_limit)
        end.intent = ENDING_TIMED_OUT;
    return end;
}

/* Whether the error is a state of the machine, for example a full disk or a damaged database. It
 * says nothing about the job and may last for hours. */
static bool is_of_the_machine(int code)
{
    static const int codes[] = {EIO,    ENOSPC, EDQUOT, ENOMEM,  EMFILE,       ENFILE,
                                EAGAIN, EBUSY,  EROFS,  EUCLEAN, ERROR_DAMAGED};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (code == -codes[i])
            return true;
    return false;
}

struct attempt_verdict job_judge_launch(struct job *job, const struct attempt *attempt,
                                        const char *what)
{
    struct attempt_verdict verdict = {.ending = ENDING_LOST, .state = JOB_QUEUED};
    bool excused = is_of_the_machine(attempt->link.error.code);
    const char *why = attempt->link.error.text[0] ? attempt->link.error.text
                                                  : "its shim ended before it started anything";

    verdict.delay = retry_delay(1, job->launch_failures);
    if (excused && verdict.delay > MACHINE_PAUSE_SECONDS)
        verdict.delay = MACHINE_PAUSE_SECONDS;
    if (job->launch_failures < LAUNCH_FAILURES_MAX)
        job->launch_failures++;
    else if (!excused)
        verdict.state = JOB_FAILED;
    if (attempt->link.error.code == -ERROR_STALE_FILE) /* what it begins with: no try mends it */
        verdict.state = JOB_FAILED;
    snprintf(verdict.reason, sizeof verdict.reason, "%s: %.400s", what, why);
    return verdict;
}

static void fill_in_end(struct transition *transition, const struct attempt *attempt,
                        const struct attempt_end *end, enum ending ending)
{
    transition->update.attempt = attempt->number;
    transition->update.attempt_change = ATTEMPT_END;
    transition->update.ending = ending;
    transition->update.attempt_started = attempt->started > 0 ? attempt->started : NAN;
    if (end->executed) /* its end may be the first news of the attempt */
        transition->update.started = transition->update.attempt_started;
    transition->update.attempt_ended = attempt->ended;
    transition->update.attempt_suspended = attempt_suspended_seconds(attempt, attempt->ended);
    transition->update.attempt_exit_status = end->exit_status;
    transition->update.signal = end->signal;
    transition->update.message = memory_copy_text(end->message);
    snprintf(transition->update.error_kind, sizeof transition->update.error_kind, "%s",
             attempt->report.error_kind);
    if (attempt->exit) {
        transition->update.peak_resident_bytes =
            json_get_int(attempt->exit, "peak_resident_bytes", -1);
        transition->update.cpu_seconds = json_get_double(attempt->exit, "cpu_seconds", NAN);
        transition->update.lost_metrics = json_get_int(attempt->exit, "lost_metrics", 0);
    }
    transition->update.energy_joules =
        device_claim_energy(&attempt->claim, false, transition->update.cpu_seconds);
    transition->update.device_energy_joules =
        device_claim_energy(&attempt->claim, true, transition->update.cpu_seconds);
}

/* The name of the type of the attempt's devices; it lives as long as the table of devices. */
static const char *device_type(const struct attempt *attempt)
{
    const struct devices *devices = attempt->daemon->devices;

    return devices->type_names[attempt->claim.device_count ? attempt->claim.devices[0]->type : 0];
}

static bool runs_on_host(const struct attempt *attempt)
{
    return attempt->claim.device_count > 0 && attempt->claim.devices[0]->driver->kind.is_host;
}

/* Records what the attempt of a command tells about the command's next run. */
static void fill_in_run(struct transition *transition, const struct job *job,
                        const struct attempt *attempt, const struct attempt_end *end)
{
    int64_t memory;

    if (end->kind != JOB_COMMAND || !end->executed)
        return;
    transition->update.run = memory_zero(sizeof *transition->update.run);
    memory = json_get_int(attempt->exit, "peak_memory_bytes", 0);
    *transition->update.run = (struct command_run){
        .completed = transition->update.ending == ENDING_COMPLETED,
        .out_of_memory = transition->update.ending == ENDING_OUT_OF_MEMORY,
        .resumed = attempt->number > 1,
        .seconds = end->seconds, /* the store adds the seconds of earlier attempts */
        .attempt_seconds = end->seconds,
        .cpu_seconds = json_get_double(attempt->exit, "cpu_seconds", 0),
        .memory = memory > 0 ? (uint64_t)memory : 0,
        .device_memory = attempt->claim.device_memory_peak,
        .held_none =
            attempt->claim.readings >= READINGS_TO_TELL && attempt->claim.device_memory_peak == 0,
        .failed_on_host = runs_on_host(attempt) && (transition->update.ending == ENDING_EXITED ||
                                                    transition->update.ending == ENDING_SIGNALLED),
        .utilisation = attempt->claim.utilisation_is_measured ? attempt->claim.utilisation : 0,
    };
    transition->update.device_type = device_type(attempt);
    transition->run_uid = job->uid;
    snprintf(transition->run_digest, sizeof transition->run_digest, "%s", job->workload->digest);
}

/* Chooses where a job that is tried again may run. If a pause was asked for, the job is paused
 * instead. */
static void redirect(struct jobs *jobs, struct job *job, const struct attempt *attempt,
                     const struct attempt_end *end, struct attempt_verdict *verdict,
                     struct transition *transition)
{
    char reason[JOB_REASON_MAX];

    if (verdict->state != JOB_QUEUED)
        return;
    if (verdict->goes_back) {
        const struct device *back = devices_find(jobs->daemon->devices, end->disagrees_with);

        job_pin(jobs, job, end->disagrees_with);
        job->disagreed = back && back->health == DEVICE_LOST;
        transition->update.changes_pin = true;
        snprintf(transition->update.pinned, sizeof transition->update.pinned, "%s",
                 end->disagrees_with);
    }
    if (verdict->counts_as_retry && end->fault != DEVICE_FAULT_NONE) {
        const char *pinned = job->needs->pinned;

        transition->update.changes_pin = job_avoid(jobs, job, attempt->claim.devices[0]) && pinned;
    }
    if (end->preemption != PREEMPTION_PAUSED || job->state != JOB_PREEMPTING)
        return;
    snprintf(reason, sizeof reason, "paused: %.*s", JOB_REASON_MAX - 16, verdict->reason);
    memcpy(verdict->reason, reason, sizeof reason);
    verdict->state = JOB_PAUSED;
}

/* When the attempt's processes were gone. The time comes from the job's user, so an impossible time
 * is replaced by `now`. */
static double end_time(const struct attempt *attempt, double now)
{
    return attempt->ended >= attempt->started && attempt->ended < now ? attempt->ended : now;
}

/* Removes the checkpoints that nothing goes on from. */
static void sweep_checkpoints(const struct attempt *attempt, const struct job *job,
                              enum job_state state)
{
    if (state == JOB_DONE)
        job_keep_last_checkpoints(attempt->daemon, job->id, attempt->number,
                                  attempt->daemon->config.checkpoints_kept_of_done);
    else
        checkpoint_sweep(attempt->daemon, job->id, attempt->number);
}

/* The attempt's end may say something of its device, or of the service by which it was shared. */
static void take_fault(struct attempt *attempt, struct job *job, const struct attempt_end *end)
{
    if (end->fault != DEVICE_FAULT_NONE && end->shared_by) {
        job->avoids_sharing = true;
        snprintf(attempt->report.error_kind, sizeof attempt->report.error_kind, "%s",
                 attempt->claim.shared_by->name);
    } else if (attempt->claim.device_count == 1) {
        device_fault_take(attempt->daemon, attempt->claim.devices[0], attempt, end);
    }
}

/* The job waits for a further attempt. */
static void job_waits_again(struct jobs *jobs, struct job *job,
                            const struct attempt_verdict *verdict)
{
    if (verdict->counts_as_retry)
        job->retries++;
    job->memory_failures += verdict->ending == ENDING_OUT_OF_MEMORY;
    job_details_free(job->details); /* the next start reads the specification again */
    job->details = NULL;
    if (verdict->state == JOB_PAUSED) {
        job_graph_rest(jobs, job);
        search_job_rests(jobs, job);
    } else {
        job_queue_after(jobs, job, verdict->delay);
    }
    jobs_dispatch(jobs);
}

static void attempt_conclude(struct attempt *attempt)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct job *job = attempt->job;
    struct attempt_end end = job_describe_end(attempt, job);
    bool uncounted = attempt->never_started && attempt->intent == ENDING_NONE;
    struct attempt_verdict verdict =
        uncounted ? job_judge_launch(job, attempt, "could not be started") : attempt_judge(&end);
    struct transition *transition;

    if (job_is_suspended(job))
        job_suspension_ended(jobs, job);
    transition = transition_new(jobs, job);
    if (job->kind == JOB_NATIVE && !uncounted)
        sweep_checkpoints(attempt, job, verdict.state);
    take_fault(attempt, job, &end);
    fill_in_end(transition, attempt, &end, verdict.ending);
    fill_in_run(transition, job, attempt, &end);
    transition->finish = attempt;
    early_changes_found(jobs, job->id);
    job->attempt = NULL;
    attempt->job = NULL;
    if (job->ended) { /* the end of the job itself is stored already */
        transition->update.ending = ENDING_CANCELLED;
        transition_store(transition);
        job_forget(jobs, job);
        return;
    }
    if (uncounted) {
        transition->update.attempt_change = ATTEMPT_DELETE;
        transition->update.attempt = job->attempt_number;
        job->attempt_number--;
    }
    transition->update.exit_status = end.exit_status;
    redirect(jobs, job, attempt, &end, &verdict, transition);
    transition_set_state(transition, job, verdict.state,
                         verdict.state != JOB_QUEUED ? WAIT_NONE
                         : verdict.delay > 0         ? WAIT_BACKOFF
                                                     : WAIT_DEVICE_BUSY,
                         verdict.reason);
    if (job_state_is_final(verdict.state) &&
        !uncounted) /* the daemon may notice the end much later */
        transition->update.ended = end_time(attempt, transition->update.time);
    transition->update.job_attempt = job->attempt_number;
    transition_store(transition);
    if (job->wait_reason == WAIT_DEVICE_BUSY) /* until now the row says why it was queued again */
        job->wait_reason = WAIT_NONE;
    if (attempt->report.has_progress && attempt->report.progress.step > job->steps_done)
        job->steps_done = attempt->report.progress.step;
    if (verdict.state == JOB_QUEUED || verdict.state == JOB_PAUSED)
        job_waits_again(jobs, job, &verdict);
    else
        job_forget(jobs, job);
}

void job_attempt_ended(struct attempt *attempt)
{
    job_logs_ended(attempt);
    if (!device_fault_look(attempt, attempt_conclude))
        attempt_conclude(attempt);
}
