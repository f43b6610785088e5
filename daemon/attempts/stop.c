/* stop.c: see stop.h. Ends an attempt on request or at its time limit, and by force if its shim
 * does not do it. */
#include "daemon/attempts/stop.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/work/job_table.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STOP_OVERDUE_MILLISECONDS = 5000, /* after the grace period */
    SHIM_MILLISECONDS = 500,          /* a shim has this long to tell that its job was killed */
    FORCE_MILLISECONDS = 5000,        /* between further tries */
};

static void on_stop_overdue(uv_timer_t *timer);

/* ---- deadline -------------------------------------------------------------------------------- */

static void on_time_limit(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;

    attempt_stop(attempt, ENDING_TIMED_OUT);
}

/* The job's way of being preempted, if the attempt is being preempted. */
static struct job_preemption attempt_preemption(const struct attempt *attempt)
{
    const struct job_details *details = attempt->job ? attempt->job->details : NULL;

    if (attempt->intent == ENDING_PREEMPTED && details && details->preemption.possible)
        return details->preemption;
    return (struct job_preemption){.grace_seconds = -1};
}

/* Seconds from the request to end until the kill. */
static double attempt_grace_seconds(const struct attempt *attempt)
{
    double grace_seconds = attempt_preemption(attempt).grace_seconds;

    return grace_seconds >= 0 ? grace_seconds : attempt->daemon->config.stop_grace_seconds;
}

void attempt_deadline_start(struct attempt *attempt, double started)
{
    double left = started + attempt->suspension.suspended + attempt->time_limit - clock_now();

    if (attempt->intent_is_unstored) /* it starts when the attempt is asked */
        attempt_timer_stop(&attempt->deadline);
    else if (attempt->intent != ENDING_NONE)
        attempt_timer_start(attempt, &attempt->deadline, on_stop_overdue,
                            (uint64_t)(1000 * attempt_grace_seconds(attempt)) +
                                STOP_OVERDUE_MILLISECONDS);
    else if (attempt->time_limit > 0 && attempt->suspension.state == SUSPENSION_NONE)
        attempt_timer_start(attempt, &attempt->deadline, on_time_limit,
                            left > 0 ? (uint64_t)(left * 1000) : 0);
    else
        attempt_timer_stop(&attempt->deadline); /* an edit took the limit away */
}

/* ---- stop ------------------------------------------------------------------------------------ */

void attempt_ask_to_stop(struct attempt *attempt)
{
    attempt_link_stop(attempt, attempt_preemption(attempt).signal, attempt_grace_seconds(attempt));
}

/* One forced end. It may outlive the attempt. */
struct force_request {
    uv_work_t work;
    struct attempt_place place; /* its state_directory is owned here */
    int shim;                   /* a descriptor of its own; -1: the shim must be searched for */
    bool with_shim;
};

static void force_work(uv_work_t *work)
{
    struct force_request *request = work->data;

    /* the shim is killed last, because it keeps track of the job's processes */
    if (!attempt_kill_processes(&request->place) && request->with_shim)
        attempt_kill_shim(&request->place, request->shim);
}

static void on_forced(uv_work_t *work, int status)
{
    struct force_request *request = work->data;

    (void)status;
    if (request->shim >= 0)
        close(request->shim);
    free((char *)request->place.state_directory);
    free(request);
}

void attempt_force(struct attempt *attempt)
{
    struct force_request *request = memory_zero(sizeof *request);
    bool again = attempt->forced;

    attempt->forced = true;
    attempt_timer_start(attempt, &attempt->deadline, on_stop_overdue,
                        again ? FORCE_MILLISECONDS : SHIM_MILLISECONDS);
    request->work.data = request;
    request->place = attempt_place(attempt);
    request->place.state_directory = memory_copy_text(request->place.state_directory);
    request->shim = attempt->link.shim < 0 ? -1 : fcntl(attempt->link.shim, F_DUPFD_CLOEXEC, 0);
    request->with_shim = again;
    daemon_queue_work(attempt->daemon, &request->work, force_work, on_forced);
}

/* The grace period is long over: the shim is stopped by a signal, or something blocks it. */
static void on_stop_overdue(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;

    if (!attempt->forced)
        log_warning("job %lld, attempt %lld: its shim has not stopped it; it is killed",
                    (long long)attempt->job_id, (long long)attempt->number);
    attempt_force(attempt);
}

void attempt_intend(struct attempt *attempt, enum ending intent)
{
    if (attempt->intent != ENDING_NONE || attempt->claim.gone)
        return;
    attempt->intent = intent;
    attempt->intent_is_unstored = true;
}

void attempt_intent_stored(struct attempt *attempt)
{
    if (!attempt->intent_is_unstored || attempt->claim.gone)
        return;
    attempt->intent_is_unstored = false;
    /* at once, because the shim might never report the trainee, for example if it is stopped */
    attempt_deadline_start(attempt, attempt->started);
    if (attempt->link.status_received) /* else link.c does it later */
        attempt_ask_to_stop(attempt);
}

void attempt_stop(struct attempt *attempt, enum ending intent)
{
    attempt_intend(attempt, intent);
    attempt_intent_stored(attempt);
}
