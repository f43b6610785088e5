/* transition.c: see transition.h. */
#include "daemon/jobs/transition.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/history.h"
#include "daemon/jobs/job_class.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/notify.h"
#include "daemon/jobs/parts.h"
#include "daemon/store/store.h"
#include "daemon/work/job_rules.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STORE_RETRY_MILLISECONDS = 1000 };

struct transitions {
    struct transition *first_failed, *last_failed; /* wait to be stored again, in order */
    uv_timer_t timer;
    transition_stored stored;
    transitions_settled settled;
    struct log_throttle throttle;
};

struct transition *transition_new(struct jobs *jobs, const struct job *job)
{
    struct transition *transition = memory_zero(sizeof *transition);

    transition->jobs = jobs;
    transition->uid = job->uid;
    transition->update = job_update_of(job->id, job->attempt_number, clock_now());
    return transition;
}

void transition_set_state(struct transition *transition, struct job *job, enum job_state to,
                          enum wait_reason wait_reason, const char *reason)
{
    enum job_state from = (enum job_state)job->state;

    if (!job_transition_allowed(from, to)) {
        log_error("job %lld: a bug of traind: a job must not change from %s to %s",
                  (long long)job->id, job_state_to_string(from), job_state_to_string(to));
        abort();
    }
    transition->update.changes_state = true;
    transition->update.from = from;
    transition->update.to = to;
    transition->update.wait_reason = wait_reason;
    snprintf(transition->update.reason, sizeof transition->update.reason, "%s", reason);
    if (job_state_is_final(to)) {
        transition->update.ended = transition->update.time;
        transition->notifies = job->notifies;
        transition->jobs->table->ended[to]++;
    }
    job_table_set_state(transition->jobs->table, job, to);
    job->wait_reason = (uint8_t)wait_reason;
}

void transition_stop(struct transition *transition, struct job *job, enum ending ending)
{
    transition->update.attempt_change = ATTEMPT_INTEND;
    transition->update.ending = ending;
    transition->stops = true;
    attempt_intend(job->attempt, ending);
}

/* The change is on disk, or will not be for a while. */
static void ask_to_stop(struct transition *transition)
{
    struct jobs *jobs = transition->jobs;
    struct job *job = transition->stops && !jobs->stopping
                          ? job_table_find(jobs->table, transition->update.job)
                          : NULL;

    transition->stops = false;
    if (job && job->attempt && job->attempt->number == transition->update.attempt)
        attempt_intent_stored(job->attempt);
}

static void transition_free(struct transition *transition)
{
    job_update_release(&transition->update);
    free(transition);
}

static int transition_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct transition *transition = data;

    return job_update_store(connection, &transition->update, error);
}

static void transition_hand_in(struct transition *transition);

/* Hands in all transitions that failed, in their order. */
static void failed_hand_in(struct jobs *jobs)
{
    struct transition *transition = jobs->transitions->first_failed;

    jobs->transitions->first_failed = jobs->transitions->last_failed = NULL;
    while (transition) {
        struct transition *next = transition->next;

        transition->next = NULL;
        transition_hand_in(transition);
        transition = next;
    }
}

static void on_store_timer(uv_timer_t *timer)
{
    failed_hand_in(timer->data);
}

static void failed_append(struct jobs *jobs, struct transition *transition)
{
    if (jobs->transitions->last_failed)
        jobs->transitions->last_failed->next = transition;
    else
        jobs->transitions->first_failed = transition;
    jobs->transitions->last_failed = transition;
}

/* Tells the waiting caller at once, because the disk may stay full for a week. The change is in
 * effect, but success would mean that it is on disk. */
static void tell_unstored(struct transition *transition, int result, const struct error *error)
{
    jobs_done done = TAKE_POINTER(transition->done);
    struct error told;

    if (!done)
        return;
    error_set(
        &told, result,
        transition->jobs->stopping
            ? "the change of job %lld could not be stored and is lost, because traind ends: "
              "%.300s"
            : "the change of job %lld is in effect, but could not be stored; traind stores it "
              "as soon as it can, and loses it if it ends before that: %.300s",
        (long long)transition->update.job,
        result == -EAGAIN ? "an earlier change of the job could not be stored either"
                          : error->text);
    done(transition->done_data, result, &told);
}

static void store_again_later(struct transition *transition, int result, const struct error *error)
{
    struct jobs *jobs = transition->jobs;
    char note[LOG_NOTE_MAX];

    if (!jobs->transitions->first_failed &&
        log_throttle_pass(&jobs->transitions->throttle, result, note))
        log_error("a change of job %lld cannot be stored and is tried again: %s%s",
                  (long long)transition->update.job, error->text, note);
    failed_append(jobs, transition);
    if (!uv_is_active((uv_handle_t *)&jobs->transitions->timer))
        uv_timer_start(&jobs->transitions->timer, on_store_timer, STORE_RETRY_MILLISECONDS, 0);
    tell_unstored(transition, result, error);
}

/* A job is launched when the changes of its state before are on disk: see start.c. */
static void count_unstored(struct transition *transition)
{
    const struct job_update *update = &transition->update;
    struct job *job = update->changes_state && update->attempt_change != ATTEMPT_BEGIN &&
                              update->attempt_change != ATTEMPT_RUN
                          ? job_table_find(transition->jobs->table, update->job)
                          : NULL;

    if (!job || job->unstored == UINT8_MAX)
        return;
    job->unstored++;
    transition->counted = true;
}

/* A change that cannot be stored counts no longer: the disk may stay full for a week. */
static void count_stored(struct transition *transition)
{
    struct jobs *jobs = transition->jobs;
    struct job *job = transition->counted && !jobs->stopping
                          ? job_table_find(jobs->table, transition->update.job)
                          : NULL;

    transition->counted = false;
    if (job && --job->unstored == 0 && job->launch_waits)
        jobs->transitions->settled(jobs, job);
}

static void on_transition_stored(void *data, int result, const struct error *error)
{
    struct transition *transition = data;
    struct jobs *jobs = transition->jobs;

    count_stored(transition);
    ask_to_stop(transition);
    /* no earlier change waits to be stored, so a further try would fail, too */
    if (result == -EAGAIN && !jobs->transitions->first_failed && !jobs->stopping) {
        log_error("a change of job %lld was dropped: %s", (long long)transition->update.job,
                  error->text);
    } else if (result < 0 && !jobs->stopping) {
        store_again_later(transition, result, error);
        return;
    }
    if (transition->finish && result < 0 && jobs->stopping)
        attempt_detach(transition->finish); /* its shim or record tells the next daemon */
    else if (transition->finish)
        attempt_finish(transition->finish);
    if (result == 0 && !jobs->stopping)
        watches_job_changed(&jobs->daemon->watches, transition->update.job);
    if (result == 0 && transition->update.run && !jobs->stopping)
        history_grown(jobs, transition->run_uid, transition->run_digest);
    if (result == 0 && !jobs->stopping)
        jobs->transitions->stored(jobs, transition);
    if (result < 0 && jobs->stopping)
        tell_unstored(transition, result, error);
    else if (transition->done)
        transition->done(transition->done_data, result, error);
    transition_free(transition);
}

/* Whether the transition may reach the disk a moment later, together with others. Reasons to wait
 * may. So may starts: if the daemon is killed before, the next one finds the attempt by its folder.
 * Ends may while other jobs wait in the queue: the shim keeps the exit record until it is told that
 * the end is stored. */
static bool transition_can_wait(const struct transition *transition)
{
    if (transition->done || transition->stops)
        return false;
    return !transition->update.changes_state ||
           transition->update.attempt_change == ATTEMPT_BEGIN ||
           transition->update.attempt_change == ATTEMPT_RUN ||
           (transition->finish && transition->jobs->classes->job_count > 0);
}

static void transition_hand_in(struct transition *transition)
{
    struct store *store = transition->jobs->daemon->store;

    if (transition_can_wait(transition))
        store_write_soon(store, transition_work, on_transition_stored, transition);
    else
        store_write(store, transition_work, on_transition_stored, transition);
}

void transition_store(struct transition *transition)
{
    /* after those that failed, because the order matters */
    if (transition->jobs->transitions->first_failed) {
        ask_to_stop(transition);
        failed_append(transition->jobs, transition);
        return;
    }
    count_unstored(transition);
    transition_hand_in(transition);
}

void transitions_stop(struct jobs *jobs)
{
    if (!jobs->transitions)
        return;
    failed_hand_in(jobs);
    uv_close((uv_handle_t *)&jobs->transitions->timer, NULL);
}

bool transitions_are_pending(const struct jobs *jobs)
{
    return jobs->transitions->first_failed != NULL;
}

void transitions_start(struct jobs *jobs, transition_stored stored, transitions_settled settled)
{
    jobs->transitions = memory_zero(sizeof *jobs->transitions);
    uv_timer_init(jobs->daemon->loop, &jobs->transitions->timer);
    jobs->transitions->timer.data = jobs;
    jobs->transitions->stored = stored;
    jobs->transitions->settled = settled;
}

void transitions_free(struct jobs *jobs)
{
    struct transition *transition = jobs->transitions ? jobs->transitions->first_failed : NULL;

    while (transition) {
        struct transition *next = transition->next;

        transition_free(transition);
        transition = next;
    }
    free(jobs->transitions);
}
