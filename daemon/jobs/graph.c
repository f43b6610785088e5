/* graph.c: holds and dependencies; see graph.h. */
#include "daemon/jobs/graph.h"

#include "base/log.h"
#include "base/memory.h"
#include "daemon/attempts/attempt.h"
#include "daemon/jobs/dispatch.h"
#include "daemon/jobs/groups.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/job_users.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/parts.h"
#include "daemon/jobs/start_times.h"
#include "daemon/jobs/sweeps.h"
#include "daemon/jobs/transition.h"
#include "daemon/jobs/workload.h"
#include "daemon/store/dependency_rows.h"
#include "daemon/store/job_rows.h"
#include "daemon/store/store.h"
#include "daemon/work/job_entry.h"
#include "daemon/work/job_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_AGAIN_MILLISECONDS = 1000 };

/* The end of a job that other jobs depend on. */
struct graph_end {
    struct graph_end *next;
    int64_t job;
    enum job_state state;
    size_t count;
    int64_t dependents[];
};

/* A dependency on a job that is not in memory (not yet, or no longer), or on a sweep. */
struct graph_orphan {
    int64_t dependent, on_job;
    enum dependency_condition condition;
    bool asked; /* the store said that it has not ended */
    bool again; /* news came during the question, so the answer may be out of date */
};

struct job_graph {
    struct jobs *jobs;
    graph_point_left point_left;
    uv_timer_t timer; /* runs on_settle() in the loop's next turn */
    struct graph_end *first_end, **last_end;
    struct graph_orphan *orphans;
    size_t orphan_count;
    struct graph_question *question; /* the question that the store is answering; NULL: none */
};

struct job_links *job_links_of(struct job *job)
{
    if (!job->links) {
        job->links = memory_grow(NULL, sizeof *job->links);
        *job->links = (struct job_links){0};
    }
    return job->links;
}

void job_links_free(struct jobs *jobs, struct job *job)
{
    if (!job->links)
        return;
    job_users_count_unmet(jobs, job->uid, -(int64_t)job->links->unmet_count);
    free(job->links->unmet);
    free(job->links->dependents);
    free(job->links);
    job->links = NULL;
}

/* ---- queueing -------------------------------------------------------------------------------- */

static bool needs_plan(const struct job *job)
{
    return job->kind == JOB_NATIVE && !job->workload->planned;
}

bool job_graph_admits(struct jobs *jobs, struct job *job)
{
    struct job_links *links = job->links;
    char sentence[JOB_REASON_MAX];

    if (!links)
        return true;
    links->blocked = links->held || links->unmet_count || links->at > 0;
    if (links->blocked)
        group_leave(jobs, job);
    if (links->held) {
        job_set_waiting(jobs, job, WAIT_HELD, JOB_HELD_SENTENCE, NULL);
        return false;
    }
    if (links->unmet_count) {
        job_set_waiting(
            jobs, job, WAIT_DEPENDENCY,
            dependencies_describe(links->unmet, links->unmet_count, sentence, sizeof sentence),
            NULL);
        return false;
    }
    if (links->at > 0) {
        job_set_waiting(jobs, job, WAIT_TIME, job_at_describe(links->at, sentence, sizeof sentence),
                        NULL);
        return false;
    }
    return !links->group || needs_plan(job) || group_enter(jobs, job);
}

/* Queues a job that no hold and no dependency blocks any more, and records what it waits for
 * now. */
static void graph_let_go(struct jobs *jobs, struct job *job)
{
    enum wait_reason before = (enum wait_reason)job->wait_reason;

    job_queue_after(jobs, job, 0);
    if (job->state == JOB_QUEUED && job->wait_reason == (uint8_t)before && !job->links->blocked &&
        before != WAIT_GROUP_LIMIT)
        job_set_waiting(jobs, job, needs_plan(job) ? WAIT_PLANNING : WAIT_DEVICE_BUSY,
                        needs_plan(job) ? "waits for its plan" : "waits for its turn", NULL);
}

void job_graph_due(struct jobs *jobs, struct job *job)
{
    job->links->at = 0;
    if (job->links->blocked && !job->links->held && !job->links->unmet_count && !job->frozen)
        graph_let_go(jobs, job);
}

void job_graph_rest(struct jobs *jobs, struct job *job)
{
    if (job->links)
        group_leave(jobs, job);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void graph_end_add(struct job_graph *graph, int64_t job, enum job_state state,
                          const int64_t *dependents, size_t count)
{
    struct graph_end *end = memory_grow(NULL, sizeof *end + count * sizeof *dependents);

    end->next = NULL;
    end->job = job;
    end->state = state;
    end->count = count;
    memcpy(end->dependents, dependents, count * sizeof *dependents);
    *graph->last_end = end;
    graph->last_end = &end->next;
    graph_settle_soon(graph->jobs);
}

void job_graph_forget(struct jobs *jobs, struct job *job)
{
    struct sweep_run *sweep;

    if (!job->links)
        return;
    group_leave(jobs, job);
    if (job->links->dependent_count)
        graph_end_add(jobs->graph, job->id, (enum job_state)job->state, job->links->dependents,
                      job->links->dependent_count);
    sweep = job->links->sweep;
    job_links_free(jobs, job);
    if (sweep)
        jobs->graph->point_left(jobs, sweep, job->id, job->state == JOB_DONE);
}

/* Renews the job's sentence, because fewer dependencies are left. */
static void sentence_renew(struct jobs *jobs, struct job *job)
{
    if (job->links->held || !job->links->blocked)
        return;
    job->wait_reason = WAIT_NONE; /* so that the new words are stored */
    job_graph_admits(jobs, job);
}

void graph_tell(struct jobs *jobs, int64_t dependent, int64_t on_job, enum job_state state)
{
    struct job *job = job_table_find(jobs->table, dependent);
    struct job_links *links = job && !job->ended ? job->links : NULL;
    size_t before = links ? links->unmet_count : 0;
    char reason[JOB_REASON_MAX];

    for (size_t i = 0; links && i < links->unmet_count; i++) {
        if (links->unmet[i].on_job != on_job)
            continue;
        switch (dependency_judge(links->unmet[i].condition, state)) {
        case DEPENDENCY_IMPOSSIBLE:
            snprintf(reason, sizeof reason, "%s %lld, whose success it was to wait for, %s",
                     on_job < 0 ? "a job of sweep" : "job", llabs(on_job),
                     state == JOB_FAILED ? "failed" : "was cancelled");
            job_cancel(jobs, job, reason, NULL, NULL);
            return;
        case DEPENDENCY_MET:
            links->unmet[i--] = links->unmet[--links->unmet_count];
            job_users_count_unmet(jobs, job->uid, -1);
            break;
        case DEPENDENCY_OPEN:
            break;
        }
    }
    if (!links || links->unmet_count == before)
        return;
    if (links->unmet_count)
        sentence_renew(jobs, job);
    else if (links->blocked && !links->held)
        graph_let_go(jobs, job);
}

/* ---- jobs that are not in memory ------------------------------------------------------------- */

struct graph_question {
    struct job_graph *graph;
    struct graph_orphan *orphans; /* owned */
    enum job_state *states;       /* owned */
    size_t count;
};

/* Runs on the writer, after everything that was handed in before. So it sees the ends of jobs that
 * have left memory. */
static int question_work(struct store_connection *connection, void *data, struct error *error)
{
    struct graph_question *question = data;

    for (size_t i = 0; i < question->count; i++) {
        const struct graph_orphan *orphan = &question->orphans[i];
        int result = dependency_state(connection, orphan->on_job, orphan->condition,
                                      &question->states[i], error);

        if (result == -ENOENT) /* deleted by hand: its success will never be reported */
            question->states[i] = JOB_CANCELLED;
        else if (result < 0)
            return result;
    }
    return 0;
}

/* News that may decide dependencies. */
struct graph_news {
    int64_t first, last; /* ids of the jobs; for a sweep both are its negative number */
    bool decides_end;    /* false: it decides only dependencies on success */
};

static void orphans_wake(struct job_graph *graph, struct graph_orphan *orphans, size_t count,
                         const struct graph_news *news)
{
    for (size_t i = 0; i < count; i++) {
        struct graph_orphan *orphan = &orphans[i];

        if (orphan->on_job < news->first || orphan->on_job > news->last ||
            (!news->decides_end && orphan->condition == DEPENDENCY_END))
            continue;
        orphan->asked = false;
        orphan->again = graph->question && orphans == graph->question->orphans;
        graph_settle_soon(graph->jobs);
    }
}

static void graph_wake(struct job_graph *graph, const struct graph_news *news)
{
    orphans_wake(graph, graph->orphans, graph->orphan_count, news);
    if (graph->question)
        orphans_wake(graph, graph->question->orphans, graph->question->count, news);
}

void job_graph_ask_again(struct jobs *jobs, int64_t first, int64_t last)
{
    graph_wake(jobs->graph, &(struct graph_news){first, last, true});
}

void job_graph_ask_sweep(struct jobs *jobs, int64_t first_job, bool missed, bool ended)
{
    int64_t sweep = dependency_on_sweep(first_job);

    if (missed || ended)
        graph_wake(jobs->graph, &(struct graph_news){sweep, sweep, ended});
}

static void orphan_add(struct job_graph *graph, struct graph_orphan orphan)
{
    graph->orphans =
        memory_grow(graph->orphans, (graph->orphan_count + 1) * sizeof *graph->orphans);
    graph->orphans[graph->orphan_count++] = orphan;
}

static void on_question(void *data, int result, const struct error *error)
{
    struct graph_question *question = data;
    struct job_graph *graph = question->graph;
    bool again = false;

    graph->question = NULL;
    for (size_t i = 0; i < graph->orphan_count; i++) /* those that were added during the question */
        again = again || !graph->orphans[i].asked;
    if (result < 0)
        log_warning("the states of jobs that others wait for cannot be read: %s", error->text);
    for (size_t i = 0; i < question->count && !graph->jobs->stopping; i++) {
        struct graph_orphan *orphan = &question->orphans[i];

        if (result == 0 && job_state_is_final(question->states[i])) {
            graph_tell(graph->jobs, orphan->dependent, orphan->on_job, question->states[i]);
        } else {
            /* it is a sweep, or a point without a row, or its end waits to be stored again */
            orphan->asked = result == 0 && !transitions_are_pending(graph->jobs) && !orphan->again;
            again = again || orphan->again;
            orphan->again = false;
            orphan_add(graph, *orphan);
            if (!orphan->asked)
                uv_timer_start(&graph->timer, graph->timer.timer_cb, ASK_AGAIN_MILLISECONDS, 0);
        }
    }
    if (again)
        graph_settle_soon(graph->jobs);
    if (!graph->jobs->stopping) {
        jobs_plan(graph->jobs);
        jobs_dispatch(graph->jobs);
    }
    free(question->orphans);
    free(question->states);
    free(question);
}

/* Connects the dependencies whose job is in memory by now, and asks the store about the others. */
static void orphans_settle(struct job_graph *graph)
{
    struct graph_question *question;
    size_t count = graph->orphan_count;

    if (count == 0 || graph->question)
        return;
    question = memory_grow(NULL, sizeof *question);
    *question = (struct graph_question){
        .graph = graph,
        .orphans = memory_grow(NULL, count * sizeof *question->orphans),
        .states = memory_grow(NULL, count * sizeof *question->states),
    };
    graph->orphan_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct graph_orphan orphan = graph->orphans[i];

        if (job_table_find(graph->jobs->table, orphan.on_job))
            graph_wait_for(graph->jobs, orphan.on_job, orphan.condition, orphan.dependent);
        else if (orphan.asked)
            graph->orphans[graph->orphan_count++] = orphan;
        else
            question->orphans[question->count++] = orphan;
    }
    if (question->count) {
        graph->question = question;
        store_write(graph->jobs->daemon->store, question_work, on_question, question);
        return;
    }
    free(question->orphans);
    free(question->states);
    free(question);
}

void graph_wait_for(struct jobs *jobs, int64_t on_job, enum dependency_condition condition,
                    int64_t dependent)
{
    struct job *job = job_table_find(jobs->table, on_job);
    struct job_links *links;

    if (!job) { /* a sweep, a later job of the same call, or a job that has just ended */
        orphan_add(jobs->graph, (struct graph_orphan){.dependent = dependent,
                                                      .on_job = on_job,
                                                      .condition = condition});
        graph_settle_soon(jobs);
        return;
    }
    links = job_links_of(job);
    links->dependents =
        memory_grow(links->dependents, (links->dependent_count + 1) * sizeof *links->dependents);
    links->dependents[links->dependent_count++] = dependent;
}

/* ---- settling -------------------------------------------------------------------------------- */

static void on_settle(uv_timer_t *timer)
{
    struct job_graph *graph = timer->data;
    struct jobs *jobs = graph->jobs;
    struct graph_end *end;

    if (jobs->stopping || !jobs->loaded)
        return;
    while ((end = graph->first_end)) { /* a dependent that is cancelled adds its own end */
        graph->first_end = end->next;
        if (!graph->first_end)
            graph->last_end = &graph->first_end;
        for (size_t i = 0; i < end->count; i++)
            graph_tell(jobs, end->dependents[i], end->job, end->state);
        free(end);
    }
    orphans_settle(graph);
    groups_settle(jobs);
    jobs_plan(jobs);
    jobs_dispatch(jobs);
}

void graph_settle_soon(struct jobs *jobs)
{
    if (!jobs->stopping)
        uv_timer_start(&jobs->graph->timer, on_settle, 0, 0);
}

/* ---- new jobs -------------------------------------------------------------------------------- */

void job_graph_add(struct jobs *jobs, struct job *job, const struct job_submission *submission)
{
    const struct dependencies *dependencies = &submission->dependencies;
    struct job_links *links;

    job->notifies = submission->notifies;
    if (!submission->held && !submission->group && !submission->sweep && submission->at <= 0 &&
        dependencies->count == 0)
        return;
    links = job_links_of(job);
    links->sweep = submission->sweep;
    links->held = submission->held;
    if (submission->at > 0)
        job_start_at(jobs, job, submission->at);
    if (submission->group)
        links->group = group_find(jobs, job->uid, submission->group, true);
    if (dependencies->count)
        links->unmet = memory_grow(NULL, dependencies->count * sizeof *links->unmet);
    for (size_t i = 0; i < dependencies->count; i++) {
        const struct dependency *dependency = &dependencies->list[i];

        if (dependency_judge(dependency->condition, dependency->state) == DEPENDENCY_MET)
            continue;
        links->unmet[links->unmet_count++] = *dependency;
        job_users_count_unmet(jobs, job->uid, 1);
        if (job_state_is_final(dependency->state))
            graph_end_add(jobs->graph, dependency->on_job, dependency->state, &job->id, 1);
        else
            graph_wait_for(jobs, dependency->on_job, dependency->condition, job->id);
    }
    /* the row says so already */
    if (links->held)
        job->wait_reason = WAIT_HELD;
    else if (links->unmet_count)
        job->wait_reason = WAIT_DEPENDENCY;
    else if (links->at > 0)
        job->wait_reason = WAIT_TIME;
}

/* ---- hold and release ------------------------------------------------------------------------ */

struct hold_change {
    int64_t id;
    bool held;
    jobs_done done;
    void *data;
};

static int hold_work(struct store_connection *connection, void *data, struct error *error)
{
    const struct hold_change *change = data;

    return job_held_store(connection, change->id, change->held, error);
}

static void on_hold_stored(void *data, int result, const struct error *error)
{
    struct hold_change *change = data;

    change->done(change->data, result, error);
    free(change);
}

static void hold(struct jobs *jobs, struct job *job)
{
    job_links_of(job)->held = true;
    /* a job that is being planned or pauses between tries is stopped when it is queued */
    if (job->queue || job->links->blocked) {
        job_dequeue(jobs, job);
        job_wait_forget(jobs->table, job); /* the time until now does not count */
        job_graph_admits(jobs, job);
    } else if (!job->attempt) {
        job_set_waiting(jobs, job, WAIT_HELD, JOB_HELD_SENTENCE, NULL);
    }
}

static void release(struct jobs *jobs, struct job *job)
{
    job->links->held = false;
    if (job->links->blocked) {
        graph_let_go(jobs, job);
        graph_settle_soon(jobs);
    } else if (job->wait_reason == WAIT_HELD) {
        job_set_waiting(jobs, job, job->backoff ? WAIT_BACKOFF : WAIT_PLANNING,
                        job->backoff ? "pauses before its next try" : "waits for its plan", NULL);
    }
}

void jobs_hold(struct daemon *daemon, int64_t id, bool held, jobs_done done, void *data)
{
    struct jobs *jobs = daemon->jobs;
    struct job *job = job_table_find(jobs->table, id);
    struct hold_change *change;
    struct error error;

    if (!job || job->ended || job->state != JOB_QUEUED) {
        error_set(&error, -ERROR_NO_SUCH_JOB, "job %lld is not queued", (long long)id);
        done(data, -ERROR_NO_SUCH_JOB, &error);
        return;
    }
    change = memory_grow(NULL, sizeof *change);
    *change = (struct hold_change){.id = id, .held = held, .done = done, .data = data};
    if (held && !(job->links && job->links->held))
        hold(jobs, job);
    else if (!held && job->links && job->links->held)
        release(jobs, job);
    store_write(daemon->store, hold_work, on_hold_stored, change);
}

/* ---- start and end --------------------------------------------------------------------------- */

void job_graph_start(struct jobs *jobs, graph_point_left point_left)
{
    struct job_graph *graph = memory_zero(sizeof *graph);

    jobs->graph = graph;
    graph->jobs = jobs;
    graph->point_left = point_left;
    graph->last_end = &graph->first_end;
    uv_timer_init(jobs->daemon->loop, &graph->timer);
    graph->timer.data = graph;
    graph->timer.timer_cb = on_settle;
}

void job_graph_stop(struct jobs *jobs)
{
    if (jobs->graph)
        uv_close((uv_handle_t *)&jobs->graph->timer, NULL);
}

void job_graph_free(struct jobs *jobs)
{
    struct job_graph *graph = jobs->graph;
    struct graph_end *end;

    if (!graph)
        return;
    while ((end = graph->first_end)) {
        graph->first_end = end->next;
        free(end);
    }
    free(graph->orphans);
    free(graph);
    jobs->graph = NULL;
}
