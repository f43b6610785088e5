/* suspend.c: see suspend.h. The states, as the shim and the job's row have them:
 *
 *     running ──▶ preempting ──────▶ queued, paused ──────▶ starting ──────▶ running
 *              Suspend    the shim says:             Resume      the shim says:
 *                         suspended                              running
 *
 * What cannot be suspended runs on (preempting ──▶ running), and the transition says why. What a
 * driver does not restore to another GPU stays suspended (starting ──▶ queued). What has lost the
 * contents of its GPU is ended (`error_kind` not_restored). */
#include "daemon/jobs/suspend.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "daemon/attempts/attempt.h"
#include "daemon/attempts/stop.h"
#include "daemon/devices/driver.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/early_changes.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_ability.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/suspension_costs.h"
#include "daemon/jobs/transition.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After a refusal by the driver; twice as long after each other one. */
static const double refused_seconds = 60;
/* The most between two tries of a driver that does not restore a job. */
static const double stayed_seconds_max = 60;

/* A suspension waits so long for the driver's reading. */
enum { READING_MILLISECONDS = 2000 };

/* ---- what can be suspended ------------------------------------------------------------------- */

static struct device *host_of(const struct jobs *jobs)
{
    return devices_find(jobs->daemon->devices, DEVICE_HOST);
}

/* Whether the machine's memory can take what the job holds of its devices. */
static bool memory_suffices(const struct jobs *jobs, const struct attempt *attempt, char *why,
                            size_t size)
{
    const struct device *host = host_of(jobs);
    uint64_t free = host ? device_memory_free(host) : 0;
    uint64_t held = device_claim_need(&attempt->claim) * (uint64_t)attempt->claim.device_count;
    char needed[32], left[32];

    if (attempt->claim.devices[0] == host || held <= free)
        return true;
    snprintf(why, size,
             "the %s that it holds of its GPU do not fit into the machine's memory, which "
             "has %s left for jobs",
             text_format_bytes(held, needed, sizeof needed),
             text_format_bytes(free, left, sizeof left));
    return false;
}

bool job_can_be_suspended(const struct jobs *jobs, const struct job *job, char *why, size_t size)
{
    const struct attempt *attempt = job->attempt;
    const struct device_suspension *suspension;
    char again[32];

    snprintf(why, size, "%s",
             attempt && attempt->suspension.state == SUSPENSION_ENDS
                 ? "it is about to go on after a suspension, so ask again in a moment"
                 : "it has not begun to run, or is about to end");
    if (job->kind != JOB_COMMAND || !attempt || attempt->planning || job->state != JOB_RUNNING ||
        attempt->intent != ENDING_NONE || attempt->claim.gone || attempt->claim.device_count == 0 ||
        attempt->suspension.state != SUSPENSION_NONE)
        return false;
    suspension = attempt->claim.devices[0]->driver->suspension;
    snprintf(why, size, "%s",
             job->unsuspendable ? "the driver could not let it go on after it was suspended"
             : !suspension      ? "programs cannot leave such a device"
             : !attempt->link.can_suspend
                 ? "its shim is one of an earlier version, or does not answer"
                 : "");
    if (!*why && suspension && suspension->obstacle)
        suspension->obstacle(jobs->daemon, why, size);
    if (!*why && attempt->suspension.refused_until > clock_now())
        snprintf(why, size, "the driver could not suspend it before, which is tried again after %s",
                 text_format_duration(ceil(attempt->suspension.refused_until - clock_now()), again,
                                      sizeof again));
    return !*why && memory_suffices(jobs, attempt, why, size);
}

bool job_goes_on_on(const struct jobs *jobs, const struct job *job, const struct device *device)
{
    const struct attempt *attempt = job->attempt;
    const struct attempt_suspension *suspension = &attempt->suspension;
    const struct device_suspension *driver = device->driver->suspension;
    bool waits = suspension->state == SUSPENSION_HOLDS;
    struct device *const *last = waits ? suspension->devices : attempt->claim.devices;
    int count = waits ? suspension->device_count : attempt->claim.device_count;

    for (int i = 0; i < count; i++)
        if (last[i] == device)
            return true;
    return count > 0 && !suspension->stays && driver && driver->moves &&
           driver->moves(jobs->daemon) && device->type == last[0]->type;
}

double job_suspension_seconds(const struct jobs *jobs, const struct job *job, double otherwise)
{
    const struct attempt *attempt = job->attempt;
    char why[JOB_REASON_MAX];

    if (!attempt || attempt->claim.device_count == 0)
        return otherwise;
    if (job_is_suspended(job))
        return attempt->suspension.device_count == 0
                   ? otherwise
                   : suspension_cost(jobs->suspension_costs, attempt->suspension.devices[0],
                                     attempt->suspension.memory, SUSPENSION_BACK);
    if (job_saves_state(job) || !job_can_be_suspended(jobs, job, why, sizeof why))
        return otherwise;
    return suspension_cost(jobs->suspension_costs, attempt->claim.devices[0],
                           device_claim_need(&attempt->claim), SUSPENSION_OUT) +
           suspension_cost(jobs->suspension_costs, attempt->claim.devices[0],
                           device_claim_need(&attempt->claim), SUSPENSION_BACK);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* A suspension waits until what the job holds of its device has been read: the last reading may be
 * older than the job's largest tensor, and the machine's memory has to take all of it. */
struct suspension_reading {
    struct daemon *daemon;
    int64_t job, attempt;
    bool asked; /* the shim was asked */
    uv_timer_t timer;
    int references; /* held by the timer and by the reading */
};

static void reading_drop(struct suspension_reading *reading)
{
    if (--reading->references == 0)
        free(reading);
}

static void on_timer_closed(uv_handle_t *handle)
{
    reading_drop(handle->data);
}

/* Asks the shim, unless the attempt has ended or is to end by now, or holds too much. */
static void reading_end(struct suspension_reading *reading)
{
    struct jobs *jobs = reading->daemon->jobs;
    char why[JOB_REASON_MAX];
    const struct job *job;

    if (reading->asked)
        return;
    reading->asked = true;
    uv_close((uv_handle_t *)&reading->timer, on_timer_closed);
    job = jobs && !jobs->stopping ? job_table_find(jobs->table, reading->job) : NULL;
    if (!job || !job->attempt || job->attempt->number != reading->attempt ||
        job->attempt->suspension.state != SUSPENSION_BEGINS || job->attempt->intent != ENDING_NONE)
        return;
    if (memory_suffices(jobs, job->attempt, why, sizeof why))
        attempt_suspend(job->attempt);
    else
        job_suspension_heard(
            job->attempt, &(struct suspension_news){.state = SUSPENSION_RUNNING, .message = why});
}

static void on_read(void *data)
{
    reading_end(data);
    reading_drop(data);
}

static void on_reading_late(uv_timer_t *timer)
{
    const struct suspension_reading *reading = timer->data;

    log_warning("job %lld: the driver does not say what it holds, so the last reading counts",
                (long long)reading->job);
    reading_end(timer->data);
}

static void suspend_once_read(struct jobs *jobs, struct attempt *attempt)
{
    struct suspension_reading *reading;

    attempt->suspension.state = SUSPENSION_BEGINS;
    if (attempt->claim.devices[0] == host_of(jobs)) {
        attempt_suspend(attempt);
        return;
    }
    reading = memory_zero(sizeof *reading);
    *reading = (struct suspension_reading){.daemon = jobs->daemon,
                                           .job = attempt->job_id,
                                           .attempt = attempt->number,
                                           .references = 2};
    uv_timer_init(jobs->daemon->loop, &reading->timer);
    reading->timer.data = reading;
    uv_timer_start(&reading->timer, on_reading_late, READING_MILLISECONDS, 0);
    devices_refresh(jobs->daemon, DEVICE_READING_NEW, on_read, reading);
}

void job_suspend(struct jobs *jobs, struct job *job, const struct job_change *change)
{
    struct attempt *attempt = job->attempt;
    struct transition *transition = transition_new(jobs, job);

    attempt->preemption = change->preemption;
    transition->done = change->done;
    transition->done_data = change->data;
    transition->update.preemption = change->preemption;
    transition->update.attempt_change = ATTEMPT_INTEND;
    transition->update.ending = ENDING_NONE;
    transition->update.decision = change->decision ? memory_copy_text(change->decision) : NULL;
    if (job->state != JOB_PREEMPTING)
        transition_set_state(transition, job, JOB_PREEMPTING, WAIT_NONE, change->reason);
    transition_store(transition);
    if (attempt->suspension.state == SUSPENSION_NONE)
        suspend_once_read(jobs, attempt);
}

/* Puts the attempt into the ledger of these devices. What was consumed before is settled. */
static void rebook(struct jobs *jobs, struct attempt *attempt, struct device *const *devices,
                   int count, uint64_t memory)
{
    bool known = attempt->need_is_known;

    jobs_unbook(jobs, attempt);
    for (int i = 0; i < JOB_DEVICES_MAX; i++)
        attempt->claim.energy[i].waiting_seconds = attempt->claim.energy[i].waiting_portion = 0;
    memmove(attempt->claim.devices, devices, (size_t)count * sizeof(struct device *));
    attempt->claim.device_count = count;
    attempt->claim.device_memory_held = 0;
    jobs_book(jobs, attempt, memory);
    attempt->need_is_known = known || memory > 0;
}

/* Bytes of the machine's memory that the suspended attempt holds, as far as it is known. */
static uint64_t memory_when_suspended(const struct jobs *jobs, const struct attempt *attempt)
{
    const struct attempt_suspension *suspension = &attempt->suspension;

    return suspension->device_count && suspension->devices[0] == host_of(jobs)
               ? attempt->claim.memory_booked
               : suspension->memory * (uint64_t)attempt_suspension_parts(attempt);
}

static void hold(struct jobs *jobs, struct attempt *attempt)
{
    struct device *host = host_of(jobs);

    attempt->suspension.state = SUSPENSION_HOLDS;
    attempt->claim.suspended = true;
    rebook(jobs, attempt, &host, 1, memory_when_suspended(jobs, attempt));
}

static void wait_for_devices(struct jobs *jobs, struct job *job, double delay)
{
    job_queue_after(jobs, job, delay);
    jobs_dispatch(jobs);
}

/* Stores how long it was suspended, which is no time that it ran. */
static void tell_suspended(struct transition *transition,
                           const struct attempt_suspension *suspension, bool is_suspended)
{
    transition->update.attempt_change = ATTEMPT_SUSPEND;
    transition->update.attempt_suspended = suspension->suspended;
    transition->update.attempt_suspended_since = is_suspended ? transition->update.time : NAN;
}

/* The attempt has left its devices. */
static void take_suspended(struct jobs *jobs, struct job *job, const struct suspension_news *news)
{
    struct attempt *attempt = job->attempt;
    struct attempt_suspension *suspension = &attempt->suspension;
    struct transition *transition = transition_new(jobs, job);
    bool paused = attempt->preemption == PREEMPTION_PAUSED, gpu;
    char reason[JOB_REASON_MAX], bytes[32], took[32], names[ATTEMPT_DEVICES_TEXT_MAX];

    if (suspension->device_count == 0) { /* an earlier daemon asked for it */
        suspension->device_count = attempt->claim.device_count;
        memcpy(suspension->devices, attempt->claim.devices, sizeof suspension->devices);
    }
    gpu = suspension->devices[0] != host_of(jobs);
    if (suspension->measures && gpu)
        suspension_costs_measure(jobs->suspension_costs, suspension->devices[0], suspension->memory,
                                 SUSPENSION_OUT, news->seconds);
    suspension->measures = false;
    hold(jobs, attempt);
    if (gpu)
        snprintf(reason, sizeof reason,
                 "suspended in %s: the %s that it held of %s wait in the machine's memory",
                 text_format_duration(news->seconds, took, sizeof took),
                 text_format_bytes(suspension->memory, bytes, sizeof bytes),
                 devices_name((const struct device *const *)suspension->devices,
                              suspension->device_count, names, sizeof names));
    else
        snprintf(reason, sizeof reason,
                 "suspended: its processes are frozen and keep their memory");
    if (job->state != JOB_PREEMPTING) { /* the row is behind */
        transition_set_state(transition, job, JOB_PREEMPTING, WAIT_NONE, "");
        transition_store(transition);
        transition = transition_new(jobs, job);
    }
    transition_set_state(transition, job, paused ? JOB_PAUSED : JOB_QUEUED,
                         paused ? WAIT_NONE : WAIT_DEVICE_BUSY, reason);
    tell_suspended(transition, suspension, true);
    transition_store(transition);
    if (!paused)
        job->wait_reason = WAIT_NONE;
    wait_for_devices(jobs, job, 0); /* which frees its devices, also where it is paused */
}

/* What the driver refused it may do later: a program that waited for another one on its GPU, for
 * example, does something else then. But each try stops the program for a while. */
static void put_off(struct attempt_suspension *suspension)
{
    suspension->refused_until = clock_now() + retry_delay(refused_seconds, suspension->refused++);
}

/* The shim could not suspend it. Nothing is lost: it has its devices still. */
static void take_refusal(struct jobs *jobs, struct job *job, const struct suspension_news *news)
{
    struct transition *transition = transition_new(jobs, job);
    char reason[JOB_REASON_MAX];

    snprintf(reason, sizeof reason, "could not be suspended, so it runs on: %.400s",
             news->message ? news->message : "its shim did not say why");
    log_warning("job %lld %s", (long long)job->id, reason);
    if (news->message)
        put_off(&job->attempt->suspension);
    job->attempt->suspension.state = SUSPENSION_NONE;
    job->attempt->preemption = PREEMPTION_NONE;
    attempt_deadline_start(job->attempt, job->attempt->started); /* also if no shim was asked */
    transition_set_state(transition, job, JOB_RUNNING, WAIT_NONE, reason);
    transition_store(transition);
    jobs_dispatch(jobs);
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Orders the devices so that each that the job had before is in its old place: then the driver need
 * not replace it. */
static void keep_places(const struct attempt_suspension *suspension, struct device **devices,
                        int count)
{
    for (int i = 0; i < count && i < suspension->device_count; i++)
        for (int k = 0; k < count; k++)
            if (devices[k] == suspension->devices[i] && k != i) {
                struct device *other = devices[i];

                devices[i] = devices[k];
                devices[k] = other;
            }
}

void job_go_on(struct jobs *jobs, struct job *job, struct device *const *devices, int count,
               const char *reason, const char *decision)
{
    struct attempt *attempt = job->attempt;
    struct device *placed[JOB_DEVICES_MAX];
    bool host = devices[0] == host_of(jobs);
    struct transition *transition;

    job_classes_remove(jobs->classes, job);
    job_wait_end(jobs->table, job, clock_now());
    memcpy(placed, devices, (size_t)count * sizeof(struct device *));
    keep_places(&attempt->suspension, placed, count);
    attempt->claim.suspended = false;
    attempt->preemption = PREEMPTION_NONE;
    rebook(jobs, attempt, placed, count,
           host ? attempt->claim.memory_booked : job_memory(job, placed[0]));
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_STARTING, WAIT_NONE, reason);
    devices_name((const struct device *const *)placed, count, transition->update.device,
                 sizeof transition->update.device);
    transition->update.decision = memory_copy_text(decision);
    transition->update.attempt_change = ATTEMPT_RUN;
    transition->update.attempt_started = attempt->started;
    transition->update.pid = attempt->claim.pid;
    transition_store(transition);
    attempt_resume(attempt);
}

static void take_resumed(struct jobs *jobs, struct job *job, const struct suspension_news *news)
{
    struct attempt_suspension *suspension = &job->attempt->suspension;
    struct transition *transition;

    if (suspension->measures && suspension->device_count && suspension->devices[0] != host_of(jobs))
        suspension_costs_measure(jobs->suspension_costs, suspension->devices[0], suspension->memory,
                                 SUSPENSION_BACK, news->seconds);
    suspension->measures = false;
    suspension->state = SUSPENSION_NONE;
    suspension->stayed = suspension->refused = 0;
    job->attempt->preemption = PREEMPTION_NONE;
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_RUNNING, WAIT_NONE, "");
    transition->update.keeps_reason = true;
    tell_suspended(transition, suspension, false);
    transition_store(transition);
    early_changes_found(jobs, job->id);
}

/* It runs already: the daemon that let it go on was killed before that was stored. */
static void take_running(struct jobs *jobs, struct job *job, const struct suspension_news *news)
{
    struct attempt *attempt = job->attempt;
    struct transition *transition;

    job_take_from_queues(jobs, job);
    attempt->claim.suspended = false;
    rebook(jobs, attempt, attempt->suspension.devices, attempt->suspension.device_count,
           attempt->suspension.device_count ? job_memory(job, attempt->suspension.devices[0]) : 0);
    if (job->state == JOB_PAUSED) {
        transition = transition_new(jobs, job);
        transition_set_state(transition, job, JOB_QUEUED, WAIT_NONE, "");
        transition_store(transition);
    }
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_STARTING, WAIT_NONE,
                         "found going on after a restart of traind");
    transition_store(transition);
    attempt->suspension.measures = false;
    take_resumed(jobs, job, news);
}

/* The driver did not take the devices, and the job stays suspended: it waits for those it had. A
 * driver that does not start is not asked again at once. */
static void take_stay(struct jobs *jobs, struct job *job, const struct suspension_news *news)
{
    struct attempt_suspension *suspension = &job->attempt->suspension;
    double delay = fmin(retry_delay(1, suspension->stayed++), stayed_seconds_max);
    struct transition *transition;
    char reason[JOB_REASON_MAX];

    snprintf(reason, sizeof reason, "stays suspended, and waits for the GPUs that it had: %.350s",
             news->message);
    log_warning("job %lld %s", (long long)job->id, reason);
    suspension->stays = true;
    hold(jobs, job->attempt);
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_QUEUED, WAIT_DEVICE_BUSY, reason);
    tell_suspended(transition, suspension, true);
    transition_store(transition);
    job->wait_reason = WAIT_NONE;
    wait_for_devices(jobs, job, delay);
}

/* ---- what the shim says ---------------------------------------------------------------------- */

static void take_broken(struct jobs *jobs, struct job *job, const struct suspension_news *news)
{
    struct attempt *attempt = job->attempt;
    struct transition *transition = transition_new(jobs, job);

    snprintf(attempt->stop_reason, sizeof attempt->stop_reason, "%.400s",
             news->message ? news->message : "the driver did not say why");
    job->unsuspendable = true;
    attempt->suspension.broken = true;
    snprintf(attempt->report.error_kind, sizeof attempt->report.error_kind, "not_restored");
    transition_stop(transition, job, ENDING_LOST);
    transition_store(transition);
}

void job_suspension_heard(struct attempt *attempt, const struct suspension_news *news)
{
    struct jobs *jobs = attempt->daemon->jobs;
    struct job *job = attempt->job;
    bool waits;

    if (!job || job->ended || jobs->stopping)
        return;
    waits = job->state == JOB_QUEUED || job->state == JOB_PAUSED;
    switch (news->state) {
    case SUSPENSION_SUSPENDING:
        attempt->suspension.state = SUSPENSION_BEGINS;
        break;
    case SUSPENSION_RESUMING:
        attempt->suspension.state = SUSPENSION_ENDS;
        break;
    case SUSPENSION_SUSPENDED:
        if (waits && !job->class &&
            !job->backoff) { /* after a restart: what it needs is known by now */
            hold(jobs, attempt);
            wait_for_devices(jobs, job, 0);
        } else if (job->state == JOB_STARTING && news->message) {
            take_stay(jobs, job, news);
        } else if (job->state == JOB_STARTING) { /* the Resume has got lost with a daemon */
            attempt_resume(attempt);
        } else if (!waits) {
            take_suspended(jobs, job, news);
        }
        break;
    case SUSPENSION_RUNNING:
        if (job->state == JOB_PREEMPTING && !news->message && !attempt->suspension.measures)
            suspend_once_read(jobs, attempt); /* the Suspend has got lost with a daemon */
        else if (job->state == JOB_PREEMPTING)
            take_refusal(jobs, job, news);
        else if (waits)
            take_running(jobs, job, news);
        else if (job->state == JOB_STARTING)
            take_resumed(jobs, job, news);
        else
            attempt->suspension.state = SUSPENSION_NONE;
        break;
    case SUSPENSION_BROKEN:
        take_broken(jobs, job, news);
        break;
    }
}

void job_suspension_ended(struct jobs *jobs, struct job *job)
{
    struct transition *transition;

    job_take_from_queues(jobs, job);
    if (job->ended)
        return;
    transition = transition_new(jobs, job);
    transition_set_state(transition, job, JOB_PREEMPTING, WAIT_NONE,
                         "its processes ended while it was suspended");
    transition_store(transition);
}

void job_suspension_restore(struct jobs *jobs, struct job *job, struct attempt *attempt,
                            const char *device)
{
    struct attempt_suspension *suspension = &attempt->suspension;
    const char *names = device ? device : DEVICE_HOST;
    int named = 1;

    job_stop_backoff(job);
    job_dequeue(jobs, job);
    suspension->state = SUSPENSION_HOLDS;
    suspension->device_count =
        devices_parse(jobs->daemon->devices, names, suspension->devices, JOB_DEVICES_MAX);
    for (const char *at = names; (at = strchr(at, ',')); at++)
        named++;
    if (suspension->device_count < named) {
        log_warning("job %lld was suspended on %s, which is not there now: it waits for it",
                    (long long)job->id, names);
        suspension->device_count = 0;
    }
    attempt->claim.suspended = true;
}
