/* job_rules.c: owns the states of a job: which transitions are legal, and what the end of an
 * attempt means for its job (job_rules.h). Nobody changes a state but by them.
 *
 *     submitted
 *         │      a decision            the trainee runs             it ends
 *         ▼
 *       queued ───────────────▶ starting ────────────────▶ running ───────────▶ done, failed
 *        ▲ ▲ │                   │    │                     │    │
 *        │ │ │                   │    └─── asked to leave ─┐│    │
 *        │ │ │                   │                         ▼▼    │
 *        │ │ └── Pause ─┐        │                    preempting │
 *        │ │            ▼        │        has left; Pause  │ │   │
 *        │ └─ Resume ─ paused ◀──┼─────────────────────────┘ │   │
 *        │                       │                           │   │
 *        └───────────────────────┴───────────────────────────┴───┘
 *           it could not start     it has left its device   it is tried again
 *
 *     Cancel leads from each of them to cancelled, except from done and failed.
 *
 *     from                 to            when
 *     queued               starting      a decision gives it a device
 *                          paused        Pause
 *                          failed        its plan fails, or no device can ever run it
 *                          preempting    it was suspended, and its processes ended, or are ended
 *                                        for a move by force
 *     starting             running       the shim says that the trainee runs
 *                          queued        the attempt could not be started; it is tried again
 *     starting, running    preempting    it is moved, paused, requeued, displaced, or its device is
 *                                        drained or lost
 *                          queued        it crashed and is tried again, it found the disk full, it
 *                                        asked for that by exit status 75, or its processes were
 *                                        lost
 *                          done, failed  the trainee ended by itself
 *     preempting           queued        it has left its device; if it is suspended, its attempt
 *                                        goes on
 *                          running       it could not be suspended
 *                          paused        it has left its device because of Pause
 *                          done, failed  it ended before it could leave
 *     paused               queued        Resume
 *                          failed        it cannot be run any more
 *                          preempting    it was suspended, and its processes ended, or are ended
 *                                        for a move by force
 */
#include "daemon/work/job_rules.h"

#include "base/text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { RETRY_DELAY_MAX = 3600 };

#define TO(state) (1u << JOB_##state)

static const unsigned allowed_transitions[] = {
    [JOB_QUEUED] = TO(STARTING) | TO(PREEMPTING) | TO(PAUSED) | TO(FAILED) | TO(CANCELLED),
    [JOB_STARTING] =
        TO(RUNNING) | TO(PREEMPTING) | TO(QUEUED) | TO(DONE) | TO(FAILED) | TO(CANCELLED),
    [JOB_RUNNING] = TO(PREEMPTING) | TO(QUEUED) | TO(DONE) | TO(FAILED) | TO(CANCELLED),
    [JOB_PREEMPTING] =
        TO(RUNNING) | TO(QUEUED) | TO(PAUSED) | TO(DONE) | TO(FAILED) | TO(CANCELLED),
    [JOB_PAUSED] = TO(QUEUED) | TO(PREEMPTING) | TO(FAILED) | TO(CANCELLED),
    [JOB_DONE] = 0,
    [JOB_FAILED] = 0,
    [JOB_CANCELLED] = 0,
};

bool job_transition_allowed(enum job_state from, enum job_state to)
{
    return allowed_transitions[from] >> to & 1;
}

double retry_delay(double backoff_seconds, int retries)
{
    double delay = backoff_seconds;

    for (int i = 0; i < retries && delay < RETRY_DELAY_MAX; i++)
        delay *= 2;
    return delay < RETRY_DELAY_MAX ? delay : RETRY_DELAY_MAX;
}

/* Describes what happened, as the beginning of a sentence. */
static void describe(const struct attempt_end *end, enum ending ending, char *text, size_t size)
{
    if (ending == ENDING_LOST)
        snprintf(text, size, "%s",
                 end->message ? end->message : "the job's processes vanished without a record");
    else if (end->message)
        snprintf(text, size, "%s", end->message);
    else if (ending == ENDING_OUT_OF_MEMORY)
        snprintf(text, size, "killed by the kernel: out of memory");
    else if (ending == ENDING_SIGNALLED)
        snprintf(text, size, "killed by signal %d (%s)", end->signal, strsignal(end->signal));
    else
        snprintf(text, size, "exit status %d", end->exit_status);
}

static void judge_failure(const struct attempt_end *end, bool crashed,
                          struct attempt_verdict *verdict)
{
    char what[JOB_REASON_MAX - 96], delay[32];

    describe(end, verdict->ending, what, sizeof what);
    if (crashed && end->retries < end->retry_limit) {
        verdict->state = JOB_QUEUED;
        verdict->counts_as_retry = true;
        verdict->delay = retry_delay(end->backoff_seconds, end->retries);
        snprintf(verdict->reason, sizeof verdict->reason, "%s; retry %d of %d in %s", what,
                 end->retries + 1, end->retry_limit,
                 text_format_duration(verdict->delay, delay, sizeof delay));
        return;
    }
    verdict->state = JOB_FAILED;
    if (crashed && end->retry_limit > 0)
        snprintf(verdict->reason, sizeof verdict->reason, "%s; all %d retries are used up", what,
                 end->retry_limit);
    else
        snprintf(verdict->reason, sizeof verdict->reason, "%s", what);
}

/* Whether the attempt ended because the daemon asked it to make room. If a native job reported an
 * error, a retry would end the same way, so that counts as a failure. Anything else that a job does
 * after the request counts as making room. */
static bool made_room(const struct attempt_end *end)
{
    if (end->intent != ENDING_PREEMPTED || end->out_of_memory || (end->recorded && !end->executed))
        return false;
    return end->exit_status != 0 && end->disagrees_with == NULL &&
           !(end->kind == JOB_NATIVE && end->exit_status == 1 && end->error_recorded);
}

static void judge_preemption(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    verdict->ending = ENDING_PREEMPTED;
    verdict->state = JOB_QUEUED;
    if (end->exit_status == EXIT_STATUS_REQUEUE)
        snprintf(verdict->reason, sizeof verdict->reason,
                 "saved its state and made room (exit status %d)", EXIT_STATUS_REQUEUE);
    else if (end->signal == SIGKILL || !end->recorded)
        snprintf(verdict->reason, sizeof verdict->reason,
                 "was asked to make room, did not end in time and was killed; it goes on from what "
                 "it saved before");
    else if (end->signal)
        snprintf(verdict->reason, sizeof verdict->reason, "made room (ended by SIG%s)",
                 sigabbrev_np(end->signal) ? sigabbrev_np(end->signal) : "?");
    else
        snprintf(verdict->reason, sizeof verdict->reason, "made room (exit status %d)",
                 end->exit_status);
}

/* Retries once only: a job that runs out of memory with half the batch size, too, has another
 * problem. */
static void retry_with_smaller_batches(const struct attempt_end *end,
                                       struct attempt_verdict *verdict)
{
    char what[JOB_REASON_MAX - 128];

    describe(end, verdict->ending, what, sizeof what);
    verdict->state = JOB_QUEUED;
    snprintf(verdict->reason, sizeof verdict->reason,
             "%s; goes on with batches of half the size, accumulated to the same updates", what);
}

/* The job returns to the device that wrote its checkpoint, which is unchanged. So nothing is
 * lost. */
static void judge_disagreement(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    verdict->ending = ENDING_EXITED;
    verdict->state = JOB_QUEUED;
    verdict->goes_back = true;
    snprintf(verdict->reason, sizeof verdict->reason, "goes back to %s and stays there: %.400s",
             end->disagrees_with, end->message ? end->message : "the devices disagree");
}

/* Another device may run the job, or the same one may succeed next time. Such retries count as
 * those after a crash. They do not count if the device's own probe confirms that it is faulty,
 * because then no job is placed on it any more. */
static void judge_device_fault(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    bool counts = !(device_fault_is_its_own(end->fault) && end->fault_confirmed);

    verdict->ending = ENDING_EXITED;
    if (counts && end->retries >= end->retry_limit) {
        judge_failure(end, true, verdict);
        return;
    }
    verdict->state = JOB_QUEUED;
    verdict->counts_as_retry = counts;
    verdict->delay = counts ? retry_delay(end->backoff_seconds, end->retries) : 0;
    snprintf(verdict->reason, sizeof verdict->reason,
             "%s failed under it (%s): %.300s; it goes on from what it saved before", end->device,
             device_fault_to_string(end->fault), end->message ? end->message : "no message");
}

/* An error of one client of a sharing service ends all its clients, and none learns whose error it
 * was. So no job is blamed. Each goes on without the service, where the error's origin shows. */
static void judge_shared_fault(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    verdict->ending = ENDING_EXITED;
    verdict->state = JOB_QUEUED;
    snprintf(verdict->reason, sizeof verdict->reason,
             "%s failed under it or under a job that it shared the GPU with by %s (%s): %.300s; it "
             "goes on from what it saved before, without %s",
             end->device, end->shared_by, device_fault_to_string(end->fault),
             end->message ? end->message : "no message", end->shared_by);
}

/* A full disk is the machine's trouble, so it costs no retry. As there is rarely room at once, the
 * delay is that before the fourth retry. */
static void judge_disk_full(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    char delay[32];

    verdict->ending = ENDING_EXITED;
    verdict->state = JOB_QUEUED;
    verdict->delay = retry_delay(end->backoff_seconds, 3);
    snprintf(verdict->reason, sizeof verdict->reason,
             "the disk is full: %.300s; make room, for example with trainctl clean; it %s in %s",
             end->message ? end->message : "no message",
             end->executed ? "goes on from its last checkpoint" : "is tried again",
             text_format_duration(verdict->delay, delay, sizeof delay));
}

/* Not the job's fault: it uses up no retry. */
static void judge_lost_device(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    verdict->ending = ENDING_LOST;
    verdict->state = JOB_QUEUED;
    if (end->not_restored)
        snprintf(verdict->reason, sizeof verdict->reason,
                 "could not go on after it was suspended: %.300s; it goes on from what it saved "
                 "before, and is not suspended again",
                 end->message ? end->message : "the driver did not say why");
    else
        snprintf(verdict->reason, sizeof verdict->reason,
                 "its device was lost; it goes on from what it saved before");
}

static void judge_cancelled(struct attempt_verdict *verdict)
{
    verdict->ending = ENDING_CANCELLED;
    verdict->state = JOB_CANCELLED;
    snprintf(verdict->reason, sizeof verdict->reason, "cancelled");
}

static void judge_completed(struct attempt_verdict *verdict)
{
    verdict->ending = ENDING_COMPLETED;
    verdict->state = JOB_DONE;
    snprintf(verdict->reason, sizeof verdict->reason, "completed");
}

static void judge_timed_out(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    char limit[32];

    verdict->ending = ENDING_TIMED_OUT;
    snprintf(verdict->reason, sizeof verdict->reason, "ran into its time limit of %s",
             text_format_duration(end->time_limit, limit, sizeof limit));
}

static void judge_requeue(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    verdict->ending = ENDING_PREEMPTED;
    verdict->state = JOB_QUEUED;
    /* a job that gives up at once repeatedly must not keep a device busy with its starts */
    verdict->delay = end->seconds < end->backoff_seconds ? end->backoff_seconds : 0;
    snprintf(verdict->reason, sizeof verdict->reason, "asked to be queued again (exit status %d)",
             EXIT_STATUS_REQUEUE);
}

/* The trainee failed, and says nothing of its device, its disk or its time. */
static void judge_exit(const struct attempt_end *end, struct attempt_verdict *verdict)
{
    verdict->ending = end->out_of_memory ? ENDING_OUT_OF_MEMORY
                      : end->signal      ? ENDING_SIGNALLED
                                         : ENDING_EXITED;
    /* A user who gives a command job a retry limit wants every failure retried. A native job says
     * itself, with an `error` record, if a retry would end the same way. */
    if (end->out_of_memory && end->batches_divide && end->memory_failures == 0)
        retry_with_smaller_batches(end, verdict);
    else
        judge_failure(end,
                      end->executed && (end->kind == JOB_COMMAND ||
                                        !(end->exit_status == 1 && end->error_recorded)),
                      verdict);
}

struct attempt_verdict attempt_judge(const struct attempt_end *end)
{
    struct attempt_verdict verdict = {.state = JOB_FAILED};
    bool succeeded = end->executed && end->exit_status == 0;
    bool faulty = end->fault != DEVICE_FAULT_NONE && end->executed && end->exit_status == 1;

    if (end->intent == ENDING_CANCELLED) {
        judge_cancelled(&verdict);
    } else if ((end->not_restored || end->intent == ENDING_LOST) && !succeeded) {
        judge_lost_device(end, &verdict);
    } else if (made_room(end)) {
        judge_preemption(end, &verdict);
    } else if (end->disagrees_with && strcmp(end->disagrees_with, end->device) != 0) {
        judge_disagreement(end, &verdict);
    } else if (!end->recorded && end->intent != ENDING_TIMED_OUT) {
        /* a timed-out attempt may lack a record: a shim that did not answer was killed, too */
        verdict.ending = ENDING_LOST;
        judge_failure(end, true, &verdict);
    } else if (succeeded) {
        judge_completed(&verdict);
    } else if (end->intent == ENDING_TIMED_OUT) {
        judge_timed_out(end, &verdict);
    } else if (end->executed && end->exit_status == EXIT_STATUS_REQUEUE) {
        judge_requeue(end, &verdict);
    } else if (end->executed == (end->kind == JOB_NATIVE) &&
               end->exit_status == EXIT_STATUS_DISK_FULL) {
        /* a command may mean anything by it, but not before it is executed (shim_unpack.c) */
        judge_disk_full(end, &verdict);
    } else if (faulty && end->shared_by) {
        judge_shared_fault(end, &verdict);
    } else if (faulty) {
        judge_device_fault(end, &verdict);
    } else {
        judge_exit(end, &verdict);
    }
    return verdict;
}
